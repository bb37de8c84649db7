// What was measured on this machine once, in a JSON file: a cache whose loss costs a measurement.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { dirname } from "node:path"
import type { ModelConfig } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"

/** Library, device, processor and threads. */
export function machineKey({ info }: TensorRuntime): string {
  return [info.version, info.device, cpus()[0]?.model ?? "unknown", `${info.threads} threads`].join(", ")
}

export function shapeKey({ vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize }: ModelConfig): string {
  return [vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize].join("x")
}

/** The answer under `key`, when it is one of `answers`. */
export function recall<Answer extends string>(path: string, key: string, answers: readonly Answer[]): Answer | undefined {
  const value = read(path)[key]
  return answers.find((answer) => answer === value)
}

/** Adds an answer. */
export function remember(path: string, key: string, answer: string): void {
  const partial = `${path}.${process.pid}.partial`
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(partial, `${JSON.stringify({ ...read(path), [key]: answer }, null, 2)}\n`)
  renameSync(partial, path)
}

function read(path: string): Readonly<Record<string, unknown>> {
  try {
    const json: unknown = JSON.parse(readFileSync(path, "utf8"))
    return typeof json === "object" && json !== null ? (json as Readonly<Record<string, unknown>>) : {}
  } catch {
    // Absent or damaged.
    return {}
  }
}
