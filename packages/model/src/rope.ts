// Rotary positions: how their settings stand in config.json (three spellings over the years), and the frequencies that they mean.
import type { Json } from "./families.ts"

export interface RopeScaling {
  readonly kind: "llama3"
  readonly factor: number
  readonly lowFreqFactor: number
  readonly highFreqFactor: number
  readonly originalMaxPosition: number
}

export interface Rope {
  readonly theta: number
  readonly scaling: RopeScaling | undefined
}

/**
 * Reads `rope_theta`, `rope_scaling` (transformers 4) and `rope_parameters` (5). What is said twice must agree.
 * @param problems receives one sentence for each fault
 */
export function parseRope(json: Json, defaultTheta: number, problems: string[]): Rope {
  const older = section(json, "rope_scaling", problems)
  const newer = section(json, "rope_parameters", problems)
  for (const key of Object.keys(older)) {
    if (newer[key] !== undefined && newer[key] !== older[key])
      problems.push(`rope_scaling.${key} is ${JSON.stringify(older[key])} and rope_parameters.${key} is ${JSON.stringify(newer[key])}; keep one`)
  }
  const rope: Json = { ...older, ...newer }
  if (json.rope_theta != null && rope.rope_theta !== undefined && json.rope_theta !== rope.rope_theta)
    problems.push(`rope_theta is ${JSON.stringify(json.rope_theta)} and ${JSON.stringify(rope.rope_theta)} in the rope settings; keep one`)
  const theta = json.rope_theta ?? rope.rope_theta ?? defaultTheta
  const partial = json.partial_rotary_factor ?? rope.partial_rotary_factor ?? 1
  if (partial !== 1) problems.push(`partial_rotary_factor is ${JSON.stringify(partial)}; only whole heads can be rotated`)
  return { theta: positive("rope_theta", theta, problems), scaling: parseScaling(rope, problems) }
}

function section(json: Json, key: string, problems: string[]): Json {
  const value = json[key]
  if (value === undefined || value === null) return {}
  if (typeof value === "object" && !Array.isArray(value)) return value as Json
  problems.push(`${key} is ${JSON.stringify(value)}; an object or null is needed`)
  return {}
}

function parseScaling(rope: Json, problems: string[]): RopeScaling | undefined {
  if (rope.type !== undefined && rope.rope_type !== undefined && rope.type !== rope.rope_type)
    problems.push(`rope type is ${JSON.stringify(rope.type)} and rope_type ${JSON.stringify(rope.rope_type)}; keep one`)
  // transformers reads a section with a factor and no kind as linear scaling; guessing would run the model unscaled.
  const kind = rope.rope_type ?? rope.type ?? (rope.factor === undefined ? "default" : undefined)
  if (kind === "default") return undefined
  if (kind !== "llama3") {
    problems.push(`rope type ${JSON.stringify(kind) ?? "is missing and"} is not supported; supported: "default", "llama3"`)
    return undefined
  }
  const number = (key: string): number => positive(`rope ${key}`, rope[key], problems)
  const scaling: RopeScaling = {
    kind: "llama3",
    factor: number("factor"),
    lowFreqFactor: number("low_freq_factor"),
    highFreqFactor: number("high_freq_factor"),
    originalMaxPosition: number("original_max_position_embeddings"),
  }
  if (scaling.highFreqFactor < scaling.lowFreqFactor)
    problems.push(`rope high_freq_factor ${scaling.highFreqFactor} is below low_freq_factor ${scaling.lowFreqFactor}`)
  return scaling
}

function positive(key: string, value: unknown, problems: string[]): number {
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return value
  problems.push(`${key} is ${JSON.stringify(value) ?? "missing"}; a positive number is needed`)
  return 1
}

/**
 * Inverse rotary frequencies, [headDim / 2] (RoFormer, arXiv:2104.09864; scaling as Llama 3.1 stretches long wavelengths).
 * @example inverseFrequencies({ headDim: 4, ropeTheta: 100, ropeScaling: undefined }) // Float32Array [1, 0.1]
 */
export function inverseFrequencies(config: { readonly headDim: number; readonly ropeTheta: number; readonly ropeScaling: RopeScaling | undefined }): Float32Array {
  const half = config.headDim / 2
  const out = new Float32Array(half)
  for (let i = 0; i < half; i++) {
    const frequency = 1 / config.ropeTheta ** (i / half)
    out[i] = config.ropeScaling === undefined ? frequency : stretch(frequency, config.ropeScaling)
  }
  return out
}

/** Short wavelengths stay, long ones are divided by the factor, those between are blended. */
function stretch(frequency: number, scaling: RopeScaling): number {
  const wavelength = (2 * Math.PI) / frequency
  const low = scaling.originalMaxPosition / scaling.lowFreqFactor
  const high = scaling.originalMaxPosition / scaling.highFreqFactor
  if (wavelength < high) return frequency
  if (wavelength > low) return frequency / scaling.factor
  const smooth = (scaling.originalMaxPosition / wavelength - scaling.lowFreqFactor) / (scaling.highFreqFactor - scaling.lowFreqFactor)
  return ((1 - smooth) * frequency) / scaling.factor + smooth * frequency
}
