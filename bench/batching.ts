// Batching against TRL's batchers, padding on four length distributions, and sharing of prompts. One JSON line per figure.
//
//     COHORT_BENCH_PYTHON=python COHORT_BENCH_TRL_1_14=folder bun run batching.ts
import { bucketLadder, createStepPlanner, fitLadder, planBatches, planPacked, type Sample, workerRows } from "@cohort/batching"
import { distributions, randomOf } from "./lengths.ts"
import { askPeer, figure } from "./peer.ts"

function fastest<T>(repeats: number, run: () => T): { readonly seconds: number; readonly result: T } {
  let result = run()
  let seconds = Infinity
  for (let index = 0; index < repeats; index++) {
    const start = performance.now()
    result = run()
    seconds = Math.min(seconds, (performance.now() - start) / 1000)
  }
  return { seconds, result }
}

async function budgetFigure(): Promise<void> {
  const random = randomOf(1)
  const lengths = Array.from({ length: 100_000 }, () => {
    const { prompt, completion } = distributions["math"]!(random)
    return prompt + completion
  })
  const samples = lengths.map((length) => ({ tokenIds: { length } }))
  const options = { workers: 8, tokenBudget: 16_384 }
  const { seconds, result } = fastest(15, () => workerRows(samples, options))
  // A release of its own beside the one of the other peers: left out where there is none.
  const peer = process.env["COHORT_BENCH_TRL_1_14"] === undefined ? undefined : await askPeer("batching.py", { task: "budget", repeats: 3, lengths, ...options })
  figure("100,000 samples to rows of 8 workers", {
    seconds, imbalance: result.imbalance, rows: result.batches.length * 8,
    ...(peer === undefined ? {} : { peer: "TRL 1.14.2 TokenBudgetBatcher", peerSeconds: peer["seconds"], peerImbalance: peer["imbalance"], peerRows: peer["rows"], speedup: peer["seconds"]! / seconds }),
  })
}

/** Samples of a step as the planners take them. */
function groupSamples(groups: readonly { readonly id: number; readonly prompt: number; readonly lengths: readonly number[] }[]): Sample[] {
  return groups.flatMap(({ id, prompt, lengths }) =>
    lengths.map((completion, member): Sample => {
      const length = prompt + completion
      return {
        id: `${id}/${member}`, groupId: String(id), rolloutId: `${id}/${member}`,
        tokenIds: Int32Array.from({ length }, (_, index) => (index === 0 ? (id * 7) % 50_000 : index < prompt ? index - 1 : member)),
        lossMask: Uint8Array.from({ length }, (_, index) => (index < prompt ? 0 : 1)),
        behaviorLogProbs: new Float32Array(length), versions: new Int32Array(length), advantage: 1, weight: 1, truncated: false,
      }
    }),
  )
}

async function sharedFigure(): Promise<void> {
  const random = randomOf(2)
  const groups = Array.from({ length: 250 }, (_, id) => ({ id, prompt: 200 + Math.floor(100 * random()), lengths: Array.from({ length: 8 }, () => 64) }))
  const samples = groupSamples(groups)
  const tokenBudget = 4096
  const { seconds, result } = fastest(5, () => planPacked(samples, { buckets: [{ rows: 1, length: tokenBudget }], share: "always", samplesPerRow: 64 }))
  const task = { task: "shared", repeats: 1, workers: 1, tokenBudget, groups: groups.map(({ id, prompt, lengths }) => ({ id, prompt, completions: lengths.length, length: lengths[0] })) }
  const peer = await askPeer("batching.py", task)
  figure("2,000 samples to rows that share prompts", {
    seconds, tokensPerSample: result.stats.forwardedTokens / result.stats.samples, rows: result.stats.rows,
    ...(peer === undefined ? {} : { peer: "TRL 1.16 TokenBudgetBatcher", peerSeconds: peer["seconds"], peerTokensPerSample: peer["tokens"]! / peer["placed"]!, peerRows: peer["rows"], speedup: peer["seconds"]! / seconds }),
  })
}

function paddingFigures(): void {
  for (const [name, draw] of Object.entries(distributions)) {
    const random = randomOf(3)
    const groups = Array.from({ length: 64 }, (_, id) => {
      const { prompt } = draw(random)
      return { id, prompt, lengths: Array.from({ length: 8 }, () => draw(random).completion) }
    })
    const samples = groupSamples(groups)
    const limits = { maxLength: 2048, tokenBudget: 16_384, samplesPerStep: samples.length }
    const geometric = planBatches(samples, { buckets: bucketLadder(limits) }).stats
    const buckets = fitLadder(samples.map(({ tokenIds }) => tokenIds.length), limits)
    const single = planBatches(samples, { buckets }).stats
    const packed = planPacked(samples, { buckets, share: "never" }).stats
    const shared = planPacked(samples, { buckets }).stats
    figure(`padding, ${name} lengths, 512 samples a step`, {
      ladderShapes: buckets.length,
      packed: { pad: packed.padFraction, shapes: packed.shapes, imbalance: packed.imbalance },
      packedShared: { pad: shared.padFraction, shapes: shared.shapes, imbalance: shared.imbalance, forwardedOverReal: shared.forwardedTokens / shared.realTokens },
      oneSampleARow: { pad: single.padFraction, shapes: single.shapes },
      oneSampleARowGeometricLadder: { pad: geometric.padFraction, shapes: geometric.shapes },
    })
  }
}

/** What a run does: the steps after another, with shapes that stay. */
function runFigures(): void {
  for (const [name, draw] of Object.entries(distributions))
    for (const packing of ["auto", "packed", "rows"] as const) {
      const random = randomOf(4)
      const planner = createStepPlanner({ maxLength: 2048, tokenBudget: 16_384, samplesPerStep: 512, packing })
      const shapes = new Set<string>()
      let [forwarded, padded, real, seconds, packedSteps] = [0, 0, 0, 0, 0]
      for (let step = 0; step < RUN_STEPS; step++) {
        const samples = groupSamples(Array.from({ length: 64 }, (_, id) => ({ id, prompt: draw(random).prompt, lengths: Array.from({ length: 8 }, () => draw(random).completion) })))
        const start = performance.now()
        const { facts, microBatches, packed } = planner.plan(samples)
        seconds += (performance.now() - start) / 1000
        for (const { rows, length } of microBatches) shapes.add(`${packed} ${rows}x${length}`)
        forwarded += facts.forwardedTokens
        padded += facts.paddedTokens
        real += facts.realTokens
        if (packed) packedSteps++
      }
      figure(`padding over ${RUN_STEPS} steps, ${name} lengths, 512 samples a step, ${packing}`, {
        pad: 1 - forwarded / padded, shapes: shapes.size, packedSteps, forwardedOverReal: forwarded / real, secondsPerStep: seconds / RUN_STEPS,
      })
    }
}

const RUN_STEPS = 40

await budgetFigure()
await sharedFigure()
paddingFigures()
runFigures()
