// What setup must return, checked where it comes in: authors may write plugins without types.
import type { RowSource, TaskSet } from "@cohort/env"
import type { Tracker } from "./define.ts"

/** True for a task set with two usable row sources. */
export function isTaskSet(value: unknown): value is TaskSet {
  if (typeof value !== "object" || value === null) return false
  const { train, heldOut, environment } = value as { readonly [key in keyof TaskSet]?: unknown }
  return isRowSource(train) && isRowSource(heldOut) && (environment === undefined || typeof environment === "function")
}

/** True for an object with the two methods of a tracker. */
export function isTracker(value: unknown): value is Tracker {
  if (typeof value !== "object" || value === null) return false
  const { log, close } = value as { readonly [key in keyof Tracker]?: unknown }
  return typeof log === "function" && typeof close === "function"
}

function isRowSource(value: unknown): value is RowSource {
  if (typeof value !== "object" || value === null) return false
  const { name, size, at } = value as { readonly [key in keyof RowSource]?: unknown }
  return typeof name === "string" && typeof at === "function" && typeof size === "number" && Number.isSafeInteger(size) && size >= 0
}
