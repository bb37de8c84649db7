// Which form of decoding is faster depends on the CPU and the model: where size does not decide, both are timed once and the answer is
// kept in a file.
import { fill, scalar, tidy, zeros } from "@tensorflow/tfjs-core"
import { type CompiledFunction, DType, recallMeasured, rememberMeasured } from "@cohort/tensor"
import { compileDecodeLoop } from "./decode-loop.ts"
import { compileDecodeMixed } from "./decode-mixed.ts"
import type { DecodeShape } from "./decode-shape.ts"
import { machineKey, shapeKey } from "./measured-key.ts"
import type { RunnerModel } from "./model.ts"

/** `loop`: all in one XLA program; `mixed`: matrix products by oneDNN, the rest in XLA programs that the layers share. */
export type DecodeForm = (typeof forms)[number]
const forms = ["loop", "mixed"] as const

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

export interface FormOptions {
  /** Whether products of the mixed form may keep rearranged weights. */
  readonly packed: boolean
  /** Parts of a batch side by side. Programs of XLA lock the weights that they read, so those of the loop form take turns. */
  readonly lanes: number
  /** Path of a JSON file that keeps answers; without it the size decides. */
  readonly memory: string | undefined
}

/** The form to use, measured at most once per machine and model shape. */
export function chooseForm(model: RunnerModel, shape: DecodeShape, { packed, lanes, memory }: FormOptions): DecodeForm {
  const { parameters } = model.policy
  const decided = formBySize(parameters) ?? (memory === undefined ? (parameters < guessAt ? "loop" : "mixed") : undefined)
  if (decided !== undefined || memory === undefined) return decided ?? "mixed"
  const { runtime, config, dtype } = model
  const key = `${machineKey(runtime)}, ${dtype === DType.bfloat16 ? "bf16" : "f32"}, ${shapeKey(config)}, ${shape.rows} rows${packed ? ", packed" : ""}${lanes > 1 ? `, ${lanes} lanes` : ""}`
  const before = recallMeasured(memory, key, forms)
  if (before !== undefined) return before
  const form = lanes * timeOf(model, "loop", shape, false) <= timeOf(model, "mixed", shape, packed) ? "loop" : "mixed"
  rememberMeasured(memory, key, form)
  return form
}

/** Milliseconds of a short chunk, the best of three after the one that compiles. */
function timeOf(model: RunnerModel, form: DecodeForm, shape: DecodeShape, packed: boolean): number {
  const program = compileDecode(model, form, shape, packed)
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
