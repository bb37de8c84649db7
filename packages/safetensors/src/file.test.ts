import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { openSafetensors } from "./file.ts"
import { errorOf, rawFile, tempFolder } from "../test/temp-files.ts"

const python = join(import.meta.dir, "../fixtures/python.safetensors")

describe("a file of the Python library", () => {
  test("gives names, metadata and shapes", () => {
    using file = openSafetensors(python)
    expect(file.metadata).toEqual({ by: "tést", format: "pt" })
    expect(file.names).toEqual(["i64", "f64", "empty", "f32", "scalar", "é", "\uffee", "😀", "bf16", "f16", "u8", "bool"])
    expect(file.info("f32")).toEqual({ dtype: "F32", shape: [2, 3], bytes: 24 })
    expect(file.info("scalar")).toEqual({ dtype: "F32", shape: [], bytes: 4 })
  })

  test("gives the values of every float dtype", () => {
    using file = openSafetensors(python)
    const exact = [0, -1.5, 3.140625, Math.fround(1e-3), 65_504, -0]
    expect([...file.f32("f32")]).toEqual(exact)
    expect([...file.f32("f64")]).toEqual(exact)
    expect([...file.f32("f16")]).toEqual([0, -1.5, 3.140625, 1049 * 2 ** -20, 65_504, -0])
    expect([...file.f32("bf16")]).toEqual([0, -1.5, 3.140625, 0.00099945068359375, 65_536, -0])
    expect([...file.f32("scalar")]).toEqual([7])
    expect([...file.f32("empty")]).toEqual([])
    expect([...new BigInt64Array(file.bytes("i64").slice().buffer)]).toEqual([-(2n ** 62n), 1n])
  })
})

test("writing to a view leaves the file as it was", () => {
  using folder = tempFolder()
  const path = folder.file("t.safetensors", rawFile({ t: { dtype: "U8", shape: [2], data_offsets: [0, 2] } }, Uint8Array.of(1, 2)))
  const before = readFileSync(path)
  using file = openSafetensors(path)
  file.bytes("t").fill(9)
  expect(readFileSync(path)).toEqual(before)
})

test("an unknown tensor, a missing file, a folder, an empty file and a read after close say so", () => {
  using folder = tempFolder()
  const file = openSafetensors(python)
  expect(errorOf(() => file.f32("nope")).message).toContain(`has no tensor "nope"`)
  file.close()
  expect(errorOf(() => file.bytes("f32")).message).toContain(`read of tensor "f32" after close`)
  expect(errorOf(() => openSafetensors(join(folder.path, "none")))).toMatchObject({ code: "file_invalid", message: expect.stringContaining("ENOENT") })
  expect(errorOf(() => openSafetensors(folder.path)).code).toBe("file_invalid")
  expect(errorOf(() => openSafetensors(folder.file("empty", ""))).message).toContain("header too small")
})
