// What setup must return, checked where it comes in: authors may write plugins without types.
import { describeValue, type RowSource, type TaskSet, type Tool, type ToolSet } from "@cohort/env"
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

/** Names that all families of chat templates can show. */
const toolName = /^[A-Za-z_][\w-]{0,63}$/

/** Everything that keeps a value from being a tool set; empty for a good one. */
export function toolSetProblems(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${describeValue(value)} is no object of name to tool`]
  const entries = Object.entries(value)
  if (entries.length === 0) return ["it holds no tool"]
  return entries.flatMap(([name, tool]) => [
    ...(toolName.test(name) ? [] : [`${JSON.stringify(name)}: a tool's name has letters, digits, _ and -, and begins with a letter`]),
    ...(isTool(tool) ? [] : [`${name}: expected { description, run }, got ${describeValue(tool)}`]),
  ])
}

/** True for what satisfies {@link toolSetProblems}. */
export function isToolSet(value: unknown): value is ToolSet {
  return toolSetProblems(value).length === 0
}

/** True for a single tool. */
export function isTool(value: unknown): value is Tool {
  if (typeof value !== "object" || value === null) return false
  const { description, run } = value as { readonly description?: unknown; readonly run?: unknown }
  return typeof description === "string" && typeof run === "function"
}

function isRowSource(value: unknown): value is RowSource {
  if (typeof value !== "object" || value === null) return false
  const { name, size, at } = value as { readonly [key in keyof RowSource]?: unknown }
  return typeof name === "string" && typeof at === "function" && typeof size === "number" && Number.isSafeInteger(size) && size >= 0
}
