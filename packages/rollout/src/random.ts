// Deterministic randomness of a run: one seed, and a stream for each rollout that depends on nothing but its coordinates.

/** Uniform numbers in [0, 1). */
export type Random = () => number

/**
 * mulberry32 (Tommy Ettinger's 32-bit generator, public domain): small, fast, equal on every machine.
 *
 * @example
 * const random = seededRandom(7); random() // 0.01...
 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A seed in [0, 2^31) out of the run's seed and coordinates (occurrence, member, attempt); murmur3's finalizer over each. */
export function seedOf(runSeed: number, ...coordinates: readonly number[]): number {
  let hash = runSeed >>> 0
  for (const part of coordinates) {
    hash = Math.imul(hash ^ (part >>> 0), 0xcc9e2d51) >>> 0
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    hash = (hash ^ (hash >>> 16)) >>> 0
    hash = (hash + 0x9e3779b9) >>> 0
  }
  return hash & 0x7fffffff
}
