// Which type the engine computes in where the caller leaves it open: bf16 halves what is read and, on processors with instructions for it, more than
// doubles the products; elsewhere it is slower than float32. Size decides for tiny and large models, a measurement between.
import { recallMeasured, rememberMeasured } from "@cohort/tensor"
import type { ModelRunner } from "../runner.ts"

export type RunnerDtype = (typeof dtypes)[number]
const dtypes = ["f32", "bf16"] as const

/** Below, a step is calls and not products. */
const floatBelow = 5_000_000
/** From here on decoding is bound by reading weights, whatever the processor multiplies with. */
const halfFrom = 50_000_000
/** bf16 sets the sampler's log-probs apart from the trainer's, so it must be worth it. */
const halfGain = 1.25
const rowsTimed = 32

export interface DtypeOptions {
  readonly parameters: number
  /** Names machine, library and model. */
  readonly key: string
  /** JSON file that keeps answers; absent: float32 where size does not decide. */
  readonly memory: string | undefined
  readonly open: (dtype: RunnerDtype) => ModelRunner
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

/** What size alone decides; undefined between. */
export function dtypeBySize(parameters: number): RunnerDtype | undefined {
  if (parameters < floatBelow) return "f32"
  return parameters >= halfFrom ? "bf16" : undefined
}

/** The type to use, measured at most once per machine and model shape. */
export async function chooseDtype({ parameters, key, memory, open, now }: DtypeOptions): Promise<RunnerDtype> {
  const decided = dtypeBySize(parameters)
  if (decided !== undefined || memory === undefined) return decided ?? "f32"
  const known = recallMeasured(memory, key, dtypes)
  if (known !== undefined) return known
  const ms = { f32: 0, bf16: 0 }
  for (const dtype of dtypes) {
    const runner = open(dtype)
    ms[dtype] = await timeOf(runner, now)
    await runner.close()
  }
  const chosen = ms.bf16 * halfGain < ms.f32 ? "bf16" : "f32"
  rememberMeasured(memory, key, chosen)
  return chosen
}

/** Milliseconds of a short chunk, the best of three after the one that compiles. */
async function timeOf(runner: ModelRunner, now: () => number): Promise<number> {
  const rows = Math.min(runner.info.slots, rowsTimed)
  const steps = runner.info.chunkSizes.findLast((size) => size <= 4) ?? 1
  const inputs = Array.from({ length: rows }, (_, slot) => ({ slot, lastToken: 0, position: 0, seed: slot, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, history: new Int32Array(0) }))
  await runner.decode(inputs, steps, 0)
  let best = Infinity
  for (let i = 0; i < 3; i++) {
    const startMs = now()
    await runner.decode(inputs, steps, 0)
    best = Math.min(best, now() - startMs)
  }
  return best
}
