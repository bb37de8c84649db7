// Deterministic tokens for the fake server: a function of prompt, seed, position and weight version, so tests can foretell them.

/** One token and its log-prob. */
export interface FakeToken {
  readonly id: number
  readonly logProb: number
}

/**
 * The token the fake server draws.
 *
 * @param seed seed of the child (request seed + index); 0 for greedy
 * @param version label of the weights that draw it
 * @returns id in [0, vocabSize), log-prob in (-3, -0.001]
 */
export function fakeToken(promptIds: readonly number[], seed: number, position: number, version: string, vocabSize: number): FakeToken {
  let hash = mix(0x811c9dc5, seed)
  for (const id of promptIds) hash = mix(hash, id)
  for (const char of version) hash = mix(hash, char.charCodeAt(0))
  hash = mix(hash, position)
  return { id: hash % vocabSize, logProb: -0.001 - ((hash >>> 8) % 2999) / 1000 }
}

function mix(hash: number, value: number): number {
  let next = Math.imul(hash ^ value, 0x01000193)
  next ^= next >>> 15
  return Math.imul(next, 0x2c1b3c6d) >>> 0
}
