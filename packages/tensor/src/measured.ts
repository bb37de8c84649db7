// What was measured on this machine once, in a JSON file: a cache, whose loss or refusal costs a measurement and nothing else.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"

/** The answer under `key`, when it is one of `answers`. */
export function recallMeasured<Answer extends string>(path: string, key: string, answers: readonly Answer[]): Answer | undefined {
  const value = read(path)[key]
  return answers.find((answer) => answer === value)
}

/**
 * Adds an answer to those of the file.
 *
 * @example
 * rememberMeasured(join(cache, "forms", "train.json"), "tensorflow 2.21, 2 cores, 29 M", "graph bf16")
 */
export function rememberMeasured(path: string, key: string, answer: string): void {
  const partial = `${path}.${process.pid}.partial`
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(partial, `${JSON.stringify({ ...read(path), [key]: answer }, null, 2)}\n`)
    renameSync(partial, path)
  } catch {
    // It is measured again at the next start.
  }
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
