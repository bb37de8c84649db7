// The length distributions that the batching figures are measured on, drawn from a seed.

export interface Drawn {
  readonly prompt: number
  readonly completion: number
}

/** Uniform numbers in [0, 1) from a seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296
  }
}

const normal = (random: () => number): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
const within = (low: number, high: number, value: number): number => Math.round(Math.min(high, Math.max(low, value)))
const logNormal = (random: () => number, median: number, sigma: number): number => median * Math.exp(sigma * normal(random))

/** Longest sample of each is 2048 tokens. */
export const distributions: Readonly<Record<string, (random: () => number) => Drawn>> = {
  /** Short questions, answers of some hundred tokens with a long tail: arithmetic word problems. */
  math: (random) => ({ prompt: within(40, 400, logNormal(random, 110, 0.4)), completion: within(16, 1536, logNormal(random, 260, 0.6)) }),
  /** Reasoning that often runs into the limit. */
  truncated: (random) => ({ prompt: within(40, 400, logNormal(random, 110, 0.4)), completion: random() < 0.3 ? 1536 : within(64, 1536, logNormal(random, 700, 0.6)) }),
  /** Two modes: direct answers and long derivations. */
  bimodal: (random) => ({ prompt: within(60, 200, 100 + 30 * normal(random)), completion: random() < 0.5 ? within(16, 120, 60 + 15 * normal(random)) : within(600, 1500, 1000 + 120 * normal(random)) }),
  /** Any length as likely as another. */
  uniform: (random) => ({ prompt: within(16, 512, 16 + 496 * random()), completion: within(16, 1536, 16 + 1520 * random()) }),
}
