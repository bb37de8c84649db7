// The random numbers of sampling: a hash of (seed, position), so that a draw depends on its own sequence and on nothing beside it.
// Written twice, for the host and for compiled programs; a test holds them equal.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import { DType, type RawOps } from "@cohort/tensor"
import { float } from "./ops.ts"

/** Separates the second draw of a position from its first. */
const secondDraw = 0x9e3779b9
/** 22 bits: the largest value times any float32 stays below that float32. */
const bits = 22

/** 32-bit mix (lowbias32 by C. Wellons): every input bit changes about half of the output bits. */
export function mix32(value: number): number {
  let x = value >>> 0
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d)
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b)
  return (x ^ (x >>> 16)) >>> 0
}

/** Two independent uniforms in (0, 1) for a position of a sequence. */
export function uniformPair(seed: number, position: number): readonly [number, number] {
  const first = mix32(mix32(seed) ^ position)
  return [unit(first), unit(mix32(first + secondDraw))]
}

function unit(hash: number): number {
  return ((hash >>> (32 - bits)) + 0.5) / 2 ** bits
}

/** {@link uniformPair} of int32 seeds and positions [B], each [B] float32. */
export function uniformPairs(raw: RawOps, seeds_B: Tensor, positions_B: Tensor): readonly [Tensor, Tensor] {
  const word = (value: number): Tensor => raw.cast(scalar(value | 0, "int32"), DType.uint32)
  const shift = (x: Tensor, count: number): Tensor => raw.rightShift(x, word(count))
  const mix = (value: Tensor): Tensor => {
    let x = raw.mul(raw.bitwiseXor(value, shift(value, 16)), word(0x7feb352d))
    x = raw.mul(raw.bitwiseXor(x, shift(x, 15)), word(0x846ca68b))
    return raw.bitwiseXor(x, shift(x, 16))
  }
  const toUnit = (hash: Tensor): Tensor => raw.mul(raw.add(raw.cast(raw.cast(shift(hash, 32 - bits), DType.int32), DType.float32), float(0.5)), float(2 ** -bits))
  const first = mix(raw.bitwiseXor(mix(raw.cast(seeds_B, DType.uint32)), raw.cast(positions_B, DType.uint32)))
  return [toUnit(first), toUnit(mix(raw.add(first, word(secondDraw))))]
}
