// Which form of decoding is faster depends on the CPU and the model: where size does not decide, both are timed once and the answer is
// kept in a file.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { dirname } from "node:path"
import { fill, scalar, tidy, zeros } from "@tensorflow/tfjs-core"
import type { ModelConfig } from "@cohort/model"
import { type CompiledFunction, DType } from "@cohort/tensor"
import { compileDecodeLoop } from "./decode-loop.ts"
import { compileDecodeMixed } from "./decode-mixed.ts"
import type { DecodeShape } from "./decode-shape.ts"
import type { RunnerModel } from "./model.ts"

/** `loop`: all in one XLA program; `mixed`: matrix products by oneDNN, the rest in XLA programs that the layers share. */
export type DecodeForm = "loop" | "mixed"

/** Parameters below which the calls between products cost more than the products, and above which one program compiles for minutes. */
const loopBelow = 5_000_000
const mixedAbove = 600_000_000
/** Where nobody may measure. */
const guessAt = 50_000_000

export function compileDecode(model: RunnerModel, form: DecodeForm, shape: DecodeShape, packed = false): CompiledFunction {
  return form === "mixed" ? compileDecodeMixed(model, shape, { packed }) : compileDecodeLoop(model, shape)
}

/** The form that size alone decides; undefined between the limits. */
export function formBySize(parameters: number): DecodeForm | undefined {
  if (parameters < loopBelow) return "loop"
  return parameters > mixedAbove ? "mixed" : undefined
}

/**
 * The form to use, measured at most once per machine and model shape.
 * @param memory path of a JSON file that keeps answers; without it the size decides
 */
export function chooseForm(model: RunnerModel, shape: DecodeShape, memory: string | undefined): DecodeForm {
  const { parameters } = model.policy
  const decided = formBySize(parameters) ?? (memory === undefined ? (parameters < guessAt ? "loop" : "mixed") : undefined)
  if (decided !== undefined || memory === undefined) return decided ?? "mixed"
  const known = readMemory(memory)
  const key = memoryKey(model, shape)
  const before = known[key]
  if (before !== undefined) return before
  const form = timeOf(model, "loop", shape) <= timeOf(model, "mixed", shape) ? "loop" : "mixed"
  writeMemory(memory, { ...known, [key]: form })
  return form
}

/** Milliseconds of a short chunk, the best of three after the one that compiles. */
function timeOf(model: RunnerModel, form: DecodeForm, shape: DecodeShape): number {
  const program = compileDecode(model, form, shape)
  const { layers, kvHeads, headDim } = model.config
  const { rows, length } = shape
  const once = (): number => {
    const startMs = performance.now()
    tidy(() => {
      const ints = (value: number) => fill([rows], value, "int32")
      const cache = model.raw.cast(zeros([2 * layers, rows, kvHeads, length, headDim]), model.dtype)
      program(scalar(4, "int32"), cache, ints(0), ints(length), ints(0), fill([rows], 1), ints(0))[0]!.dataSync()
    })
    return performance.now() - startMs
  }
  once()
  const best = Math.min(once(), once(), once())
  program.dispose()
  return best
}

/** What the answer depends on. */
function memoryKey({ runtime, config, dtype }: RunnerModel, { rows }: DecodeShape): string {
  const shapeOf = ({ vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize }: ModelConfig) => [vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize].join("x")
  return [runtime.info.version, runtime.info.device, cpus()[0]?.model ?? "unknown", `${runtime.info.threads} threads`, dtype === DType.bfloat16 ? "bf16" : "f32", shapeOf(config), `${rows} rows`].join(", ")
}

/** A file that is absent or damaged only costs a measurement. */
function readMemory(path: string): Readonly<Record<string, DecodeForm>> {
  try {
    const json = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>
    return Object.fromEntries(Object.entries(json).filter((entry): entry is [string, DecodeForm] => entry[1] === "loop" || entry[1] === "mixed"))
  } catch {
    return {}
  }
}

function writeMemory(path: string, answers: Readonly<Record<string, DecodeForm>>): void {
  mkdirSync(dirname(path), { recursive: true })
  const partial = `${path}.${process.pid}.partial`
  writeFileSync(partial, `${JSON.stringify(answers, null, 2)}\n`)
  renameSync(partial, path)
}
