import { describe, expect, test } from "bun:test"
import { inverseFrequencies, parseRope, type Rope } from "./rope.ts"

const llama3 = { rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 }

function read(json: Record<string, unknown>): { rope: Rope; problems: string[] } {
  const problems: string[] = []
  return { rope: parseRope(json, 10_000, problems), problems }
}

describe("rope settings", () => {
  test("null and absent are plain", () => {
    expect(read({ rope_scaling: null })).toEqual({ rope: { theta: 10_000, scaling: undefined }, problems: [] })
    expect(read({ rope_parameters: { rope_type: "default", rope_theta: 500 } })).toEqual({ rope: { theta: 500, scaling: undefined }, problems: [] })
  })

  test("all spellings give the same", () => {
    const { rope_type, ...rest } = llama3
    const wanted = { theta: 500_000, scaling: { kind: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPosition: 8192 } } as const
    expect(read({ rope_theta: 500_000, rope_scaling: llama3 })).toEqual({ rope: wanted, problems: [] })
    expect(read({ rope_theta: 500_000, rope_scaling: { type: rope_type, ...rest } })).toEqual({ rope: wanted, problems: [] })
    expect(read({ rope_parameters: { ...llama3, rope_theta: 500_000 } })).toEqual({ rope: wanted, problems: [] })
    expect(read({ rope_theta: 500_000, rope_scaling: llama3, rope_parameters: llama3 })).toEqual({ rope: wanted, problems: [] })
  })

  test.each([
    [{ rope_scaling: 1 }, "rope_scaling is 1; an object or null"],
    [{ rope_scaling: { type: "linear", factor: 2 } }, '"linear" is not supported; supported: "default", "llama3"'],
    [{ rope_scaling: { rope_type: "yarn", factor: 4 } }, '"yarn" is not supported'],
    [{ rope_scaling: { factor: 2 } }, "is missing and is not supported"],
    [{ rope_scaling: { ...llama3, factor: "8" } }, 'rope factor is "8"; a positive number'],
    [{ rope_scaling: { ...llama3, low_freq_factor: undefined } }, "rope low_freq_factor is missing"],
    [{ rope_scaling: { ...llama3, high_freq_factor: 0.5 } }, "high_freq_factor 0.5 is below low_freq_factor 1"],
    [{ rope_scaling: { ...llama3, type: "linear" } }, 'rope type is "linear" and rope_type "llama3"'],
    [{ rope_scaling: llama3, rope_parameters: { ...llama3, factor: 32 } }, "rope_scaling.factor is 8 and rope_parameters.factor is 32"],
    [{ rope_theta: 10_000, rope_parameters: { rope_theta: 500_000 } }, "rope_theta is 10000 and 500000"],
    [{ rope_theta: "10000" }, 'rope_theta is "10000"'],
    [{ partial_rotary_factor: 0.5 }, "partial_rotary_factor is 0.5"],
  ])("refused: %j", (json, message) => {
    const { problems } = read(json)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(message)
  })
})

test("frequencies fall from 1 by powers of theta", () => {
  expect([...inverseFrequencies({ headDim: 8, ropeTheta: 10_000, ropeScaling: undefined })]).toEqual([1, Math.fround(0.1), Math.fround(0.01), Math.fround(0.001)])
})

test("Llama 3.1 keeps short wavelengths, divides long ones and blends between", () => {
  const scaling = { kind: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPosition: 8192 } as const
  const plain = inverseFrequencies({ headDim: 128, ropeTheta: 500_000, ropeScaling: undefined })
  const stretched = inverseFrequencies({ headDim: 128, ropeTheta: 500_000, ropeScaling: scaling })
  const ratios = Array.from(stretched, (value, i) => plain[i]! / value)
  expect(ratios[0]).toBe(1)
  expect(ratios.at(-1)).toBe(8)
  for (let i = 1; i < ratios.length; i++) expect(ratios[i]!).toBeGreaterThanOrEqual(ratios[i - 1]! - 1e-6)
  // Wavelength 2048 is where blending begins, 8192 where it ends.
  for (const [i, frequency] of plain.entries()) {
    const wavelength = (2 * Math.PI) / frequency
    expect(ratios[i]! > 1 && ratios[i]! < 8).toBe(wavelength > 2048 && wavelength < 8192)
  }
})
