// A random order of the numbers below `size` that needs no memory: a Feistel network over a power of four, walked until the
// result falls inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, cycle walking).
import { CohortError } from "@cohort/errors"

const rounds = 6
const maxSize = 2 ** 32

/**
 * A bijection of 0..size-1 that depends on `seed` and `epoch` only.
 *
 * @throws CohortError `dataset_invalid` for a size that is no whole number from 1 to 2^32
 * @example const order = permutation(10, 42, 0); order(0) // the row that comes first in epoch 0
 */
export function permutation(size: number, seed: number, epoch: number): (position: number) => number {
  if (!Number.isInteger(size) || size < 1 || size > maxSize) {
    throw new CohortError("dataset_invalid", `cannot order ${size} rows: the number must be from 1 to ${maxSize}`)
  }
  // At least 256 places, so that small sets are shuffled as well as large ones.
  let halfBits = 4
  while (4 ** halfBits < size) halfBits++
  const mask = 2 ** halfBits - 1
  const keys = Array.from({ length: rounds }, (_, round) => roundKey(seed, epoch, round))

  const encipher = (value: number): number => {
    let left = Math.floor(value / (mask + 1))
    let right = value & mask
    for (const key of keys) [left, right] = [right, left ^ (mix(right ^ key) & mask)]
    return left * (mask + 1) + right
  }
  return (position) => {
    let at = encipher(position)
    while (at >= size) at = encipher(at)
    return at
  }
}

function roundKey(seed: number, epoch: number, round: number): number {
  const high = Math.floor(seed / 2 ** 32)
  return mix(mix(mix(mix(seed >>> 0) ^ high) ^ epoch) ^ (round + 1))
}

// The finaliser of MurmurHash3, 32 bits.
function mix(value: number): number {
  let hash = value >>> 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
