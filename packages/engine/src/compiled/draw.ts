// Drawing one token on the host, for backends that compile nothing. The same rules and the same uniforms as sample.ts.
import type { SlotInput } from "../runner.ts"
import { isGreedy } from "./rows.ts"
import { vocabularyBlocks } from "./sample.ts"
import { uniformPair } from "./uniform.ts"

export interface HostDraw {
  readonly tokenId: number
  /** Under the distribution drawn from; at temperature 0 that of temperature 1. */
  readonly logProb: number
  readonly topIds: readonly number[]
  readonly topLogProbs: readonly number[]
}

/**
 * Penalty, temperature, top-k, top-p, min-p, then the draw of `position`.
 * @param logits one per token, read only
 * @param history tokens that the penalty counts
 */
export function drawOnHost(logits: Float32Array, input: SlotInput, history: Iterable<number>, position: number, top: number): HostDraw {
  const z = Float64Array.from(logits)
  const greedy = isGreedy(input)
  if (input.repetitionPenalty !== 1) for (const id of new Set(history)) z[id] = z[id]! > 0 ? z[id]! / input.repetitionPenalty : z[id]! * input.repetitionPenalty
  if (!greedy) {
    for (let id = 0; id < z.length; id++) z[id] = z[id]! / input.temperature
    truncateOnHost(z, input)
  }
  const max = z.reduce((a, b) => Math.max(a, b), -Infinity)
  const logTotal = max + Math.log(z.reduce((total, value) => total + Math.exp(value - max), 0))
  const tokenId = greedy ? Math.max(0, z.indexOf(max)) : invert(z, max, uniformPair(input.seed, position))
  const topIds = top === 0 ? [] : Array.from(z.keys()).toSorted((a, b) => z[b]! - z[a]! || a - b).slice(0, top)
  return { tokenId, logProb: z[tokenId]! - logTotal, topIds, topLogProbs: topIds.map((id) => z[id]! - logTotal) }
}

function truncateOnHost(z: Float64Array, { topK, topP, minP }: SlotInput): void {
  if (topK <= 0 && topP >= 1 && minP <= 0) return
  const sorted = z.toSorted().toReversed()
  const max = sorted[0]!
  let floor = topK > 0 && topK < z.length ? sorted[topK - 1]! : -Infinity
  if (topP < 1) {
    const within = sorted.filter((value) => value >= floor)
    const needed = topP * within.reduce((total, value) => total + Math.exp(value - max), 0)
    let mass = 0
    floor = within.find((value) => (mass += Math.exp(value - max)) >= needed) ?? floor
  }
  if (minP > 0) floor = Math.max(floor, max + Math.log(minP))
  for (let id = 0; id < z.length; id++) if (z[id]! < floor) z[id] = -Infinity
}

/** First a block of the vocabulary, then a token of it, as sample.ts does. */
function invert(z: Float64Array, max: number, [first, second]: readonly [number, number]): number {
  const { count, size } = vocabularyBlocks(z.length)
  const mass = (begin: number, end: number): number[] => Array.from(z.subarray(begin, end), (value) => Math.exp(value - max))
  const blocks = Array.from({ length: count }, (_, block) => mass(block * size, (block + 1) * size))
  const block = pick(blocks.map((values) => values.reduce((total, value) => total + value, 0)), first)
  return block * size + pick(blocks[block]!, second)
}

function pick(mass: readonly number[], u: number): number {
  const target = u * mass.reduce((total, value) => total + value, 0)
  let running = 0
  const hit = mass.findIndex((value) => (running += value) > target && value > 0)
  return hit >= 0 ? hit : Math.max(0, mass.findLastIndex((value) => value > 0))
}
