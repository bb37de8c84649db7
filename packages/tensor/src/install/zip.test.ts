import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import fc from "fast-check"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeZip, type ZipInput } from "./testing/zip-writer.ts"
import { extractZipEntry, readZipEntries } from "./zip.ts"

let dir = ""
let count = 0
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-zip-"))
})
afterAll(() => rm(dir, { recursive: true }))

async function saved(content: Uint8Array): Promise<string> {
  const path = join(dir, `${count++}.zip`)
  await writeFile(path, content)
  return path
}

async function unpacked(path: string, name: string): Promise<Buffer> {
  const entry = (await readZipEntries(path)).get(name)
  if (entry === undefined) throw new Error(`no ${name}`)
  const target = join(dir, `${count++}.out`)
  await extractZipEntry(path, entry, target)
  return readFile(target)
}

const hello: ZipInput = { name: "a/hello.txt", data: Buffer.from("hello hello hello hello") }

describe("zip", () => {
  test("gives back what was packed: stored, deflated and zip64 entries, any comment", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(
          fc.record({
            name: fc.string({ minLength: 1, maxLength: 12 }),
            data: fc.uint8Array({ maxLength: 400 }),
            method: fc.constantFrom(0 as const, 8 as const),
            zip64: fc.boolean(),
          }),
          { selector: (input) => Buffer.from(input.name).toString(), maxLength: 5 },
        ),
        fc.string({ maxLength: 30 }),
        fc.boolean(),
        async (inputs, comment, zip64End) => {
          const path = await saved(makeZip(inputs, { comment, zip64End }))
          expect((await readZipEntries(path)).size).toBe(inputs.length)
          for (const input of inputs) {
            const data = await unpacked(path, Buffer.from(input.name).toString())
            expect(data.equals(Buffer.from(input.data))).toBe(true)
          }
        },
      ),
      { seed: 7, numRuns: 25 },
    )
  })

  test("streams an entry of many blocks and reports each", async () => {
    const data = Buffer.alloc(5_300_000, "abcdefg")
    const path = await saved(makeZip([hello, { name: "big", data }]))
    const entry = (await readZipEntries(path)).get("big")!
    const reports: number[] = []
    await extractZipEntry(path, entry, join(dir, "big"), { onBytes: (bytes) => reports.push(bytes) })
    expect((await readFile(join(dir, "big"))).equals(data)).toBe(true)
    expect(reports.length).toBeGreaterThan(4)
    expect(reports.at(-1)).toBe(data.length)
  })

  test.each([
    ["a wrong checksum", makeZip([{ ...hello, crc32: 1 }]), "CRC-32"],
    ["an encrypted entry", makeZip([{ ...hello, flags: 1 }]), "encrypted"],
    ["a file cut short", makeZip([hello]).subarray(0, 40), "not a zip archive"],
    ["an empty file", Buffer.alloc(0), "not a zip archive"],
    ["a file of another kind", Buffer.alloc(500, 7), "not a zip archive"],
  ])("refuses %s", async (_, content, said) => {
    const path = await saved(content)
    await expect(unpacked(path, hello.name)).rejects.toMatchObject({ code: "file_invalid", message: expect.stringContaining(said) })
  })

  test("refuses damaged compressed data and a table of contents that points outside", async () => {
    const zip = makeZip([{ name: "x", data: Buffer.alloc(100_000, "some text that repeats") }])
    const damaged = Buffer.from(zip)
    damaged.fill(0xff, 60, 90)
    await expect(unpacked(await saved(damaged), "x")).rejects.toMatchObject({ code: "file_invalid" })
    const outside = Buffer.from(zip)
    outside.writeUInt32LE(zip.length + 1, zip.length - 6)
    await expect(unpacked(await saved(outside), "x")).rejects.toMatchObject({ code: "file_invalid" })
  })

  test("refuses deflate data that ends early instead of waiting for more", async () => {
    const path = await saved(makeZip([{ name: "x", data: Buffer.alloc(100_000, "0123456789abcdef") }]))
    const entry = (await readZipEntries(path)).get("x")!
    const cut = { ...entry, compressedBytes: entry.compressedBytes - 20 }
    await expect(extractZipEntry(path, cut, join(dir, "cut"))).rejects.toMatchObject({ code: "file_invalid" })
  })

  test("stops at an abort", async () => {
    const path = await saved(makeZip([{ name: "big", data: Buffer.alloc(4_000_000) }]))
    const entry = (await readZipEntries(path)).get("big")!
    const abort = new AbortController()
    const work = extractZipEntry(path, entry, join(dir, "aborted"), { signal: abort.signal, onBytes: () => abort.abort() })
    await expect(work).rejects.toMatchObject({ code: "aborted" })
  })

  test("does not write over a file that exists", async () => {
    const path = await saved(makeZip([hello]))
    const entry = (await readZipEntries(path)).get(hello.name)!
    await expect(extractZipEntry(path, entry, path)).rejects.toThrow("EEXIST")
  })
})
