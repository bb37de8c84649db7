// Top-k, top-p and min-p as thresholds on the logits, found by bisection over the bits of float32: exact, no sort, and tokens that tie
// at the threshold are all kept. Used inside a compiled program.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import { DType, type RawOps, type TensorRuntime } from "@cohort/tensor"
import { attributes } from "./attributes.ts"
import { filled, float } from "./ops.ts"

export interface Truncation {
  /** [B] int32; 0 keeps all. */
  readonly topK: Tensor
  /** [B] float32; 1 keeps all. */
  readonly topP: Tensor
  /** [B] float32; 0 keeps all. */
  readonly minP: Tensor
}

/** Below every finite logit; exp of it is 0 once the maximum is subtracted. */
export const excluded = -3e38

/**
 * Scaled logits with the tokens outside top-k, then top-p (of what top-k kept), then min-p set to {@link excluded}.
 * @param z_BV float32 logits after penalties and temperature
 * @param off_B bool rows that are not truncated
 */
export function truncate(runtime: TensorRuntime, raw: RawOps, z_BV: Tensor, off_B: Tensor, settings: Truncation): Tensor {
  const [rows] = z_BV.shape as [number, number]
  const column = (x: Tensor): Tensor => raw.reshape(x, [rows, 1])
  const ordered = orderedBits(raw, z_BV)
  const ceiling = raw.max(ordered, 1)
  const lowest = filled(raw, [rows], scalar(-(2 ** 31), "int32"))
  const top = raw.max(z_BV, 1, true)

  const countNeeded = raw.cast(settings.topK, DType.float32)
  const kThreshold = highestWith(runtime, raw, ordered, filled(raw, [1, 1], float(1)), countNeeded)
  const kOff = raw.or(off_B, raw.less(settings.topK, scalar(1, "int32")))
  const kFloor = raw.select(kOff, lowest, raw.minimum(kThreshold, ceiling))
  const inK = raw.greaterEqual(ordered, column(kFloor))

  const mass = raw.select(inK, raw.exp(raw.sub(z_BV, top)), float(0))
  const massNeeded = raw.mul(settings.topP, raw.sum(mass, 1))
  const pThreshold = highestWith(runtime, raw, ordered, mass, massNeeded)
  const pOff = raw.or(off_B, raw.greaterEqual(settings.topP, float(1)))
  const pFloor = raw.select(pOff, lowest, raw.minimum(pThreshold, ceiling))

  const logMin = raw.log(raw.maximum(settings.minP, float(1e-30)))
  const mOff = raw.or(off_B, raw.lessEqual(settings.minP, float(0)))
  const mFloor = raw.select(column(mOff), float(excluded), raw.add(top, column(logMin)))

  const kept = raw.and(raw.greaterEqual(ordered, column(raw.maximum(kFloor, pFloor))), raw.greaterEqual(z_BV, mFloor))
  return raw.select(kept, z_BV, float(excluded))
}

/** int32 that orders like the float32 it came from. */
function orderedBits(raw: RawOps, x: Tensor): Tensor {
  const word = raw.one("Bitcast", [x], [attributes.type("T", DType.float32), attributes.type("type", DType.int32)])
  return raw.select(raw.less(word, scalar(0, "int32")), raw.bitwiseXor(word, scalar(0x7fffffff, "int32")), word)
}

/** Per row the highest threshold t such that the weights where `ordered >= t` sum to at least `needed`; built from the top bit down. */
function highestWith(runtime: TensorRuntime, raw: RawOps, ordered_BV: Tensor, weights: Tensor, needed_B: Tensor): Tensor {
  const [rows] = ordered_BV.shape as [number, number]
  const start = filled(raw, [rows], scalar(-(2 ** 31), "int32"))
  const zero = float(0)
  const [, threshold] = runtime.whileLoop!(
    // The bit itself is the counter: it shifts out to 0. As uint32, since the first one is the sign bit.
    (bit) => raw.one("NotEqual", [bit!, raw.cast(scalar(0, "int32"), DType.uint32)], [attributes.type("T", DType.uint32), attributes.bool("incompatible_shape_error", true)]),
    (bit, found) => {
      const candidate = raw.add(found!, raw.cast(bit!, DType.int32))
      const sum = raw.sum(raw.select(raw.greaterEqual(ordered_BV, raw.reshape(candidate, [rows, 1])), raw.add(weights, zero), zero), 1)
      return [raw.rightShift(bit!, raw.cast(scalar(1, "int32"), DType.uint32)), raw.select(raw.greaterEqual(sum, needed_B), candidate, found!)]
    },
    [raw.cast(scalar(-(2 ** 31), "int32"), DType.uint32), start],
  )
  return threshold!
}
