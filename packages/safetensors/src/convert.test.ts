import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16, fromF32, toF32 } from "./convert.ts"

const bits = (hex: number) => new Float32Array(Uint32Array.of(hex).buffer)

describe("bfloat16", () => {
  test("rounds to nearest, ties to even", () => {
    // 0x3f808000 is half way between 0x3f80 and 0x3f81; 0x3f818000 between 0x3f81 and 0x3f82.
    expect([...f32ToBf16(bits(0x3f808000))]).toEqual([0x3f80])
    expect([...f32ToBf16(bits(0x3f818000))]).toEqual([0x3f82])
    expect([...f32ToBf16(bits(0x3f808001))]).toEqual([0x3f81])
    expect([...f32ToBf16(bits(0x3f807fff))]).toEqual([0x3f80])
  })

  test("keeps NaN, infinities and the sign of zero; overflows to infinity", () => {
    const out = bf16ToF32(f32ToBf16(Float32Array.of(NaN, Infinity, -Infinity, -0, 3.4028234e38)))
    expect([...out]).toEqual([NaN, Infinity, -Infinity, -0, Infinity])
    // A signalling NaN whose payload lies in the dropped half must not become infinity.
    expect(bf16ToF32(f32ToBf16(bits(0x7f800001)))[0]).toBeNaN()
  })

  test("is exact on every bit pattern on the way back", () => {
    const all = Uint16Array.from({ length: 65_536 }, (_, i) => i)
    const again = f32ToBf16(bf16ToF32(all))
    const changed = all.filter((pattern, i) => again[i] !== pattern && !Number.isNaN(bf16ToF32(Uint16Array.of(pattern))[0]))
    expect([...changed]).toEqual([])
  })

  test("errs by at most half a unit in the last place", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true, min: -(2 ** 100), max: 2 ** 100 }), (value) => {
        const near = bf16ToF32(f32ToBf16(Float32Array.of(value)))[0]!
        expect(Math.abs(near - value)).toBeLessThanOrEqual(Math.max(Math.abs(value) * 2 ** -8, 2 ** -133))
      }),
      { seed: 1, numRuns: 300 },
    )
  })
})

test("float16 rounds and overflows as IEEE 754 says", () => {
  expect([...f32ToF16(Float32Array.of(1, -2, 65_504, 65_519, 65_520, 2 ** -24, 2 ** -25))]).toEqual([
    0x3c00, 0xc000, 0x7bff, 0x7bff, 0x7c00, 1, 0,
  ])
  expect([...f16ToF32(Uint16Array.of(0x3555, 0xfc00, 0x0001))]).toEqual([0.333251953125, -Infinity, 2 ** -24])
})

test("bytes at an odd address convert", () => {
  const source = Uint8Array.of(0, 0x80, 0x3f, 0x00, 0x40)
  expect([...toF32(source.subarray(1), "BF16")]).toEqual([1, 2])
})

test("every float dtype makes the way there and back", () => {
  const values = Float32Array.of(0, 1, -0.5, 1024)
  for (const dtype of ["F32", "F64", "F16", "BF16"] as const) expect([...toF32(fromF32(values, dtype), dtype)]).toEqual([...values])
})

test("integers are refused", () => {
  expect(() => toF32(new Uint8Array(8), "I64")).toThrow("dtype I64 does not convert to float32")
})
