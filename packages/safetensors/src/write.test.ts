import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { open, rename, unlink } from "node:fs/promises"
import { join } from "node:path"
import fc from "fast-check"
import { checksumFile, createChecksum } from "./checksum.ts"
import { fromF32 } from "./convert.ts"
import { byteLengthOf, supportedDtypes } from "./dtype.ts"
import { openSafetensors } from "./file.ts"
import { errorOf, tempFolder } from "../test/temp-files.ts"
import { layOut, type TensorToWrite } from "./layout.ts"
import { writeSafetensors, type WriterFiles } from "./write.ts"

const python = join(import.meta.dir, "../fixtures/python.safetensors")
const tensor = (name: string, ...values: number[]): TensorToWrite => ({
  name,
  dtype: "F32",
  shape: [values.length],
  bytes: fromF32(Float32Array.from(values), "F32"),
})

test("the same tensors give the bytes of the Python library", async () => {
  using folder = tempFolder()
  using source = openSafetensors(python)
  const tensors = source.names.toReversed().map((name) => ({ name, ...source.info(name), bytes: source.bytes(name) }))
  const path = join(folder.path, "again.safetensors")
  const written = await writeSafetensors(path, tensors, { metadata: source.metadata })
  expect(readFileSync(path)).toEqual(readFileSync(python))
  expect(written).toBe(readFileSync(python).length)
})

test("what is written is read back, whatever names and dtypes", async () => {
  using folder = tempFolder()
  const path = join(folder.path, "t.safetensors")
  const arbitrary = fc.uniqueArray(
    fc.record({ name: fc.string({ unit: "binary" }).filter((name) => name !== "__metadata__"), dtype: fc.constantFrom(...supportedDtypes), rows: fc.nat(4) }),
    { selector: (item) => item.name, maxLength: 8 },
  )
  await fc.assert(
    fc.asyncProperty(arbitrary, async (items) => {
      const tensors = items.map(({ name, dtype, rows }, i) => {
        const shape = [rows, 4]
        return { name, dtype, shape, bytes: new Uint8Array(byteLengthOf(dtype, shape) ?? -1).fill(i + 1) }
      })
      await writeSafetensors(path, tensors)
      using file = openSafetensors(path)
      expect(file.names.toSorted()).toEqual(tensors.map(({ name }) => name).toSorted())
      for (const { name, dtype, shape, bytes } of tensors) {
        expect(file.info(name)).toEqual({ dtype, shape, bytes: bytes.length })
        expect(file.bytes(name)).toEqual(bytes)
      }
    }),
    { seed: 7, numRuns: 30 },
  )
})

test("data begins at a multiple of 8", () => {
  for (let length = 1; length < 12; length++) expect(layOut([tensor("x".repeat(length), 1)]).head.length % 8).toBe(0)
})

describe("tensors that do not fit are refused before a file is touched", () => {
  const cases: [string, readonly TensorToWrite[], string][] = [
    ["a name twice", [tensor("a", 1), tensor("a", 2)], `tensor "a" was given twice`],
    ["the reserved name", [tensor("__metadata__", 1)], "reserved"],
    ["wrong number of bytes", [{ ...tensor("a", 1), shape: [2] }], `tensor "a": shape [2] of F32 needs 8 bytes, got 4`],
    ["negative size", [{ ...tensor("a", 1), shape: [-1, -1] }], "shape [-1, -1]"],
  ]
  test.each(cases)("%s", (_, tensors, message) => {
    expect(errorOf(() => layOut(tensors)).message).toContain(message)
  })
})

describe("a write that fails leaves the old file and nothing else", () => {
  const failing = (error: Error, afterWrites: number): WriterFiles => ({
    rename,
    unlink,
    open: async (path, flags) => {
      const handle = await open(path, flags)
      let writes = 0
      return {
        write: (async (...args: Parameters<typeof handle.write>) => {
          if (writes++ >= afterWrites) throw error
          return handle.write(...args)
        }) as typeof handle.write,
        sync: () => handle.sync(),
        close: () => handle.close(),
      }
    },
  })

  test("disk full part way", async () => {
    using folder = tempFolder()
    const path = join(folder.path, "w.safetensors")
    await writeSafetensors(path, [tensor("a", 1)])
    const old = readFileSync(path)
    const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" })
    const attempt = writeSafetensors(path, [tensor("a", 2), tensor("b", 3)], { files: failing(full, 2) })
    expect(await attempt.catch((error: unknown) => error)).toMatchObject({ code: "disk_full" })
    expect(readFileSync(path)).toEqual(old)
    expect(readdirSync(folder.path)).toEqual(["w.safetensors"])
  })

  test.skipIf(!existsSync("/dev/full"))("the system's own full device", async () => {
    using folder = tempFolder()
    const files: WriterFiles = { rename, unlink, open: () => open("/dev/full", "w") }
    const attempt = writeSafetensors(join(folder.path, "w"), [tensor("a", 1)], { files })
    expect(await attempt.catch((error: unknown) => error)).toMatchObject({ code: "disk_full" })
    expect(readdirSync(folder.path)).toEqual([])
  })

  test("aborted", async () => {
    using folder = tempFolder()
    const attempt = writeSafetensors(join(folder.path, "w"), [tensor("a", 1)], { signal: AbortSignal.abort() })
    expect(await attempt.catch((error: unknown) => error)).toMatchObject({ code: "aborted" })
    expect(readdirSync(folder.path)).toEqual([])
  })

  test("a folder that is not there", async () => {
    using folder = tempFolder()
    const attempt = writeSafetensors(join(folder.path, "no/w"), [tensor("a", 1)])
    expect(await attempt.catch((error: unknown) => error)).toMatchObject({ code: "file_invalid" })
  })
})

test("a mapping outlives the replacement of its file", async () => {
  using folder = tempFolder()
  const path = join(folder.path, "w.safetensors")
  await writeSafetensors(path, [tensor("a", 1, 2)])
  using before = openSafetensors(path)
  await writeSafetensors(path, [tensor("a", 3, 4)])
  using after = openSafetensors(path)
  expect([...before.f32("a")]).toEqual([1, 2])
  expect([...after.f32("a")]).toEqual([3, 4])
})

test("the checksum is CRC-32, of a file and of what is written", async () => {
  using folder = tempFolder()
  // The check value of the standard.
  expect(await checksumFile(folder.file("check", "123456789"))).toBe("cbf43926")
  const path = join(folder.path, "w.safetensors")
  const checksum = createChecksum()
  await writeSafetensors(path, [tensor("a", 1, 2), tensor("b", 3)], { durable: false, onBytes: checksum.update })
  expect(checksum.hex()).toBe(await checksumFile(path))
})
