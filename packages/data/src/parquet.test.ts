import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { errorOf, folderOf, parquetFolder } from "../test/fixtures.ts"
import { openDataset } from "./dataset.ts"

describe.each(["snappy", "zstd", "gzip", "brotli", "lz4", "none"])("a file of Arrow's writer, %s", (codec) => {
  test("loads whole, as JSON", async () => {
    const source = await openDataset({ path: join(parquetFolder, `${codec}.parquet`) })
    const rows = [0, 1, 2].map((i) => source.at(i))
    expect(source.size).toBe(3)
    expect(rows.map((row) => row.id)).toEqual(["9007199254740995", "7", "-3"])
    expect(rows.map((row) => row.prompt)).toEqual(["a", "é😀", "c"].map((content) => [{ role: "user", content }]))
    expect(rows.map((row) => row.score)).toEqual([0.5, null, null])
    expect(rows.map((row) => row.at)).toEqual(["2026-01-02T03:04:05.000Z", null, "1970-01-01T00:00:00.000Z"])
    expect(rows.map((row) => row.tags)).toEqual([["x", "y"], [], null])
    expect(rows.map((row) => row.meta)).toEqual([{ n: 1 }, { n: null }, null])
    expect(() => JSON.stringify(rows)).not.toThrow()
  })
})

test("bytes are refused unless the column is left out", async () => {
  const path = join(parquetFolder, "bytes.parquet")
  const source = await openDataset({ path, columns: ["prompt"] })
  expect(source.at(0)).toEqual({ id: "0", prompt: "a" })
  const error = await errorOf(() => openDataset({ path: join(parquetFolder, "snappy.parquet"), columns: ["prompt", "nope"] }))
  expect(error.message).toBe("snappy.parquet: column nope missing; found: prompt, id, score, at, tags, meta")
})

test("a file that is no parquet, and one cut short, say so", async () => {
  const whole = await Bun.file(join(parquetFolder, "snappy.parquet")).bytes()
  using folder = folderOf({ "a.parquet": "nothing of the kind", "b.parquet": whole.subarray(0, 200), "c.parquet": "" })
  for (const name of ["a", "b", "c"]) {
    const error = await errorOf(() => openDataset({ path: join(folder.path, `${name}.parquet`) }))
    expect(error.code).toBe("dataset_invalid")
    expect(error.message).toContain(`${name}.parquet`)
  }
})
