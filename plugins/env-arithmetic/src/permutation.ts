// A seeded shuffle of 0..size-1 that needs no list: position i is computed, so pair spaces of any size cost nothing.

const rounds = 8

/**
 * A bijection of [0, size) chosen by the seed: an eight-round Feistel network over the next power of four, walked along its
 * cycle until the value is inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Round keys come from
 * splitmix32 and the round function is its finaliser. For shuffling, not for secrecy.
 *
 * @param size 1 to 2^48.
 * @example const at = permutation(10_000, 7); at(0) // some index, never given for another position
 */
export function permutation(size: number, seed: number): (position: number) => number {
  let halfBits = 1
  while (4 ** halfBits < size) halfBits++
  const half = 2 ** halfBits
  const keys = roundKeys(seed)
  const encrypt = (value: number): number => {
    let left = Math.floor(value / half)
    let right = value % half
    for (const key of keys) [left, right] = [right, (left ^ mix(right ^ key)) & (half - 1)]
    return left * half + right
  }
  return (position) => {
    let value = encrypt(position)
    while (value >= size) value = encrypt(value)
    return value
  }
}

/** splitmix32: a Weyl sequence through a 32-bit finaliser. */
function roundKeys(seed: number): number[] {
  // Both halves of a seed past 32 bits count.
  let state = (seed >>> 0) ^ mix(Math.floor(seed / 2 ** 32) >>> 0)
  return Array.from({ length: rounds }, () => {
    state = (state + 0x9e3779b9) | 0
    return mix(state)
  })
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
