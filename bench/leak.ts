// Five hundred optimizer steps of the embedded backend on tiny batches, in two lanes: tensors, their bytes and resident memory are flat after
// the warm-up. Prints one JSON line; exit code 1 when something grew.
import { collate, type Sample } from "@cohort/batching"
import { createEmbeddedBackend } from "@cohort/trainer/embedded"
import { findRuntime, openRuntime } from "@cohort/tensor"

const steps = 500
const warmUp = 100
const lookEvery = 10
/** Pages that the allocator keeps, not a step's data: 500 leaked batches of the smallest tensor of the step would be more. */
const allowedRssBytes = 16 * 2 ** 20

const lookup = findRuntime({ env: process.env })
if (lookup.status !== "found") throw new Error(`${lookup.reason}. ${lookup.hint}`)
const runtime = await openRuntime({ backend: "tensorflow", libraryPath: lookup.runtime.libraryPath, threads: 1, lanes: 2 })
const backend = createEmbeddedBackend(runtime, {
  modelFolder: new URL("../models/arithmetic-1m", import.meta.url).pathname,
  adamW: { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0 },
  compile: "graph", precision: "f32", entropy: true, machine: "leak",
})

function sample(id: string, seed: number): Sample {
  const length = 8
  const tokenIds = Int32Array.from({ length }, (_, i) => 5 + ((seed * 7 + i * 3) % 90))
  const lossMask = Uint8Array.from({ length }, (_, i) => (i < 4 ? 0 : 1))
  return {
    id, groupId: id, rolloutId: id, tokenIds, lossMask,
    behaviorLogProbs: Float32Array.from(lossMask, (trained) => (trained === 1 ? -1 : 0)),
    versions: Int32Array.from(lossMask, (trained) => (trained === 1 ? 0 : -1)),
    advantage: seed % 2 === 0 ? 1 : -1, weight: 1, truncated: false,
  }
}

interface Look {
  readonly tensors: number
  readonly bytes: number
  readonly rss: number
}
const looks: Look[] = []
for (let step = 1; step <= steps; step++) {
  const batch = collate([sample("a", step), sample("b", step + 1)], { rows: 2, length: 16 })
  backend.forwardBackward(batch, { kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.2, temperature: 1, normalizer: batch.trainedTokens })
  const { skipped } = backend.optimStep({ learningRate: 1e-6, maxGradNorm: 1 })
  if (skipped) throw new Error(`step ${step} was skipped`)
  if (step < warmUp || step % lookEvery !== 0) continue
  Bun.gc(true)
  looks.push(backend.counters())
}
backend.close()

const grown = (of: (look: Look) => number): number => of(looks.at(-1)!) - of(looks[0]!)
const half = Math.floor(looks.length / 2)
const least = (part: readonly Look[]): number => Math.min(...part.map(({ rss }) => rss))
// The least of each half: a collector's moment is no leak.
const rssGrownBytes = least(looks.slice(half)) - least(looks.slice(0, half))
const ok = grown(({ tensors }) => tensors) <= 0 && grown(({ bytes }) => bytes) <= 0 && rssGrownBytes <= allowedRssBytes
process.stdout.write(`${JSON.stringify({ name: "leak/train-step", steps, tensors: looks.at(-1)!.tensors, tensorsGrown: grown(({ tensors }) => tensors), bytesGrown: grown(({ bytes }) => bytes), rssBytes: looks.at(-1)!.rss, rssGrownBytes, ok })}\n`)
process.exitCode = ok ? 0 : 1
