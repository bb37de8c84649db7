import { expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { errorOf, tempFolder } from "../test/temp-files.ts"
import { checksumFile } from "./checksum.ts"
import { fromF32 } from "./convert.ts"
import { createSafetensors } from "./create.ts"
import { openSafetensors } from "./file.ts"

const infos = [
  { name: "b", dtype: "F32", shape: [2] },
  { name: "a", dtype: "BF16", shape: [1, 3] },
] as const

test("tensors lie in the order given, however their bytes come", async () => {
  using folder = tempFolder()
  const path = join(folder.path, "new.safetensors")
  const file = createSafetensors(path, infos, { version: "3" })
  const all = new Uint8Array([...fromF32(Float32Array.of(1, 2), "F32"), ...fromF32(Float32Array.of(3, 4, 5), "BF16")])
  for (const [from, to] of [[0, 5], [5, 5], [5, 14]] as const) file.append(all.subarray(from, to))
  const { bytes, checksum } = file.finish()
  expect(bytes).toBe(Bun.file(path).size)
  expect(checksum).toBe(await checksumFile(path))
  using read = openSafetensors(path)
  expect(read.names).toEqual(["b", "a"])
  expect(read.metadata).toEqual({ version: "3" })
  expect([...read.f32("b")]).toEqual([1, 2])
  expect([...read.f32("a")]).toEqual([3, 4, 5])
})

test("missing bytes are told, and a discarded file is gone", () => {
  using folder = tempFolder()
  const file = createSafetensors(join(folder.path, "new.safetensors"), infos, {})
  file.append(new Uint8Array(4))
  expect(errorOf(() => file.finish()).message).toContain("4 bytes were written, its tensors have 14")
  file.discard()
  expect(readdirSync(folder.path)).toEqual([])
})

test("a file that exists stays, and tensors that the format does not allow touch none", () => {
  using folder = tempFolder()
  const path = folder.file("old.safetensors", "old")
  expect(errorOf(() => createSafetensors(path, infos, {})).code).toBe("file_invalid")
  expect(Bun.file(path).size).toBe(3)
  const other = join(folder.path, "new.safetensors")
  expect(errorOf(() => createSafetensors(other, [infos[0], infos[0]], {})).message).toContain("given twice")
  expect(existsSync(other)).toBe(false)
})
