import { describe, expect, test } from "bun:test"
import { maxHeaderBytes, parseHeader } from "./header.ts"
import { errorOf, rawFile } from "../test/temp-files.ts"

const f32 = (shape: unknown, offsets: unknown) => ({ dtype: "F32", shape, data_offsets: offsets })

describe("a size that the file only claims", () => {
  const cases: [string, Uint8Array, string][] = [
    ["empty file", new Uint8Array(0), "header too small: the file has 0 bytes"],
    ["seven bytes", new Uint8Array(7), "header too small: the file has 7 bytes"],
    ["length 0", rawFile("", 0), `must start with "{"`],
    ["longer than the file", rawFile("{}".padEnd(112), 0, 4096n), "invalid header length: 4096 bytes claimed, 112 follow"],
    ["2^63", rawFile("{}", 0, 2n ** 63n), "header too large: 9223372036854775808"],
    ["one over the limit", rawFile("{}", 0, 100_000_001n), `at most ${maxHeaderBytes}`],
    ["2^64-1", rawFile("{}", 0, 2n ** 64n - 1n), "header too large: 18446744073709551615"],
  ]
  test.each(cases)("%s is refused", (_, bytes, message) => {
    const error = errorOf(() => parseHeader(bytes, "m.safetensors"))
    expect(error.code).toBe("file_invalid")
    expect(error.message).toContain("m.safetensors: ")
    expect(error.message).toContain(message)
  })
})

describe("a header that is wrong inside", () => {
  const cases: [string, string | object, number, string][] = [
    ["a list", "[]", 0, `found "["`],
    ["broken JSON", "{nope", 0, "not JSON"],
    ["a byte order mark", "\ufeff{}", 0, "must start with"],
    ["an entry that is no object", { t: 3 }, 0, `tensor "t": expected an object, found 3`],
    ["one offset", { t: f32([2], [8]) }, 8, `tensor "t": data_offsets [8]`],
    ["offsets backwards", { t: f32([2], [8, 0]) }, 8, `tensor "t": data_offsets [8, 0] run backwards`],
    ["negative offset", { t: f32([2], [-8, 0]) }, 8, `tensor "t": data_offsets [-8,0]`],
    ["too few bytes for the shape", { t: f32([3], [0, 8]) }, 8, "needs 12 bytes, data_offsets [0, 8] hold 8"],
    ["a shape past counting", { t: f32([2 ** 32, 2 ** 32], [0, 8]) }, 8, "no whole, addressable number of bytes"],
    ["half a byte", { t: { dtype: "F4", shape: [3], data_offsets: [0, 2] } }, 2, "no whole, addressable"],
    ["unknown dtype", { t: { dtype: "Q4", shape: [2], data_offsets: [0, 8] } }, 8, `tensor "t": dtype "Q4" is not one of U64`],
    ["fraction in the shape", { t: f32([1.5], [0, 6]) }, 6, "shape [1.5]"],
    ["metadata with a number", { __metadata__: { a: 1 } }, 0, "__metadata__.a must be a string, found 1"],
    ["metadata that is a list", { __metadata__: [] }, 0, "__metadata__ must be an object"],
    ["data cut off", { t: f32([2], [0, 8]) }, 4, "the file has"],
    ["bytes after the last tensor", { t: f32([1], [0, 4]) }, 8, "4 bytes follow the last tensor"],
    ["a hole", { a: f32([1], [0, 4]), b: f32([1], [8, 12]) }, 12, `tensor "b": begins at 8, expected 4: it leaves a hole`],
    ["an overlap", { a: f32([2], [0, 8]), b: f32([2], [4, 12]) }, 12, `tensor "b": begins at 4, expected 8: it overlaps`],
    ["a repeated name", `{"t":${JSON.stringify(f32([1], [0, 4]))},"\\u0074":${JSON.stringify(f32([1], [0, 4]))}}`, 4, `tensor "t" stands twice`],
  ]
  test.each(cases)("%s is refused", (_, header, data, message) => {
    const error = errorOf(() => parseHeader(rawFile(header, data), "m"))
    expect(error.code).toBe("file_invalid")
    expect(error.message).toContain(message)
  })

  test("bytes that are no UTF-8 are refused", () => {
    expect(errorOf(() => parseHeader(Uint8Array.of(2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0xff), "m")).message).toContain("not UTF-8")
  })
})

describe("a header that the reference reader accepts", () => {
  const cases: [string, string | object, number][] = [
    ["spaces at the end", `${JSON.stringify({ t: f32([1], [0, 4]) })}    `, 4],
    ["scalar", { t: f32([], [0, 4]) }, 4],
    ["no elements", { t: f32([0, 4], [0, 0]) }, 0],
    ["no tensors", {}, 0],
    ["only metadata", { __metadata__: { format: "pt" } }, 0],
    ["BF16 at an odd offset", { a: { dtype: "U8", shape: [1], data_offsets: [0, 1] }, b: { dtype: "BF16", shape: [1], data_offsets: [1, 3] } }, 3],
    ["data not in header order", { b: f32([1], [4, 8]), a: f32([1], [0, 4]) }, 8],
    ["the names of Object's own members", { constructor: f32([1], [0, 4]), toString: f32([1], [4, 8]) }, 8],
  ]
  test.each(cases)("%s", (_, header, data) => {
    expect(() => parseHeader(rawFile(header, data), "m")).not.toThrow()
  })

  test("30 MB of header load", () => {
    const entries = Array.from({ length: 300_000 }, (_, i) => `"model.layers.${i}.some.long.weight.name":{"dtype":"F32","shape":[0,1024],"data_offsets":[0,0]}`)
    const bytes = rawFile(`{${entries.join(",")}}`)
    expect(bytes.length).toBeGreaterThan(25_000_000)
    expect(parseHeader(bytes, "m").tensors.size).toBe(300_000)
  })
})
