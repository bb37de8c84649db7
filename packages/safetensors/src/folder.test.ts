import { describe, expect, test } from "bun:test"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { openModelWeights } from "./folder.ts"
import { errorOf, rawFile, tempFolder } from "../test/temp-files.ts"

const shard = (...names: string[]) =>
  rawFile(
    Object.fromEntries(names.map((name, i) => [name, { dtype: "U8", shape: [2], data_offsets: [2 * i, 2 * i + 2] }])),
    Uint8Array.from({ length: 2 * names.length }, (_, i) => i),
  )
const index = (map: unknown) => JSON.stringify({ metadata: { total_size: 4 }, weight_map: map })
const [one, two] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const

test("a single file is read, also beside an index", () => {
  using folder = tempFolder()
  folder.file("model.safetensors", shard("a"))
  folder.file("model.safetensors.index.json", "{}")
  using weights = openModelWeights(folder.path)
  expect(weights.names).toEqual(["a"])
  expect(weights.files).toEqual(["model.safetensors"])
})

test("shards are joined", () => {
  using folder = tempFolder()
  folder.file(one, shard("a"))
  folder.file(two, shard("b", "c"))
  folder.file("model.safetensors.index.json", index({ a: one, b: two, c: two }))
  using weights = openModelWeights(folder.path)
  expect(weights.names).toEqual(["a", "b", "c"])
  expect(weights.files).toEqual([one, two])
  expect(weights.totalBytes).toBe(6)
  expect([...weights.bytes("c")]).toEqual([2, 3])
  expect(errorOf(() => weights.info("d")).message).toContain(`no tensor "d"`)
})

describe("an index that does not fit its shards is refused", () => {
  const cases: [string, Record<string, Uint8Array | string>, string][] = [
    ["missing shard", { [one]: shard("a"), index: index({ a: one, b: two }) }, `names ${two}, not in the folder`],
    ["tensor in two shards", { [one]: shard("a"), [two]: shard("a", "b"), index: index({ a: one, b: two }) }, `tensor "a" is in ${one} and in ${two}`],
    ["tensor that its shard lacks", { [one]: shard("a"), index: index({ a: one, b: one }) }, `places tensor "b" in ${one}`],
    ["tensor that the index lacks", { [one]: shard("a", "b"), index: index({ a: one }) }, `tensor "b" of ${one} is not in`],
    ["path outside the folder", { index: index({ a: "../x.safetensors" }) }, `points to "../x.safetensors"`],
    ["no weight map", { index: "{}" }, "weight_map must be an object"],
    ["null", { index: "null" }, "weight_map must be an object"],
    ["broken JSON", { index: "{" }, "model.safetensors.index.json"],
  ]
  test.each(cases)("%s", (_, files, message) => {
    using folder = tempFolder()
    for (const [name, content] of Object.entries(files)) folder.file(name === "index" ? "model.safetensors.index.json" : name, content)
    const error = errorOf(() => openModelWeights(folder.path))
    expect(error.code).toBe("model_invalid")
    expect(error.message).toContain(message)
  })

  test("an index that is a folder", () => {
    using folder = tempFolder()
    mkdirSync(join(folder.path, "model.safetensors.index.json"))
    expect(errorOf(() => openModelWeights(folder.path)).code).toBe("model_invalid")
  })
})

test("a folder without safetensors names what it holds instead", () => {
  using folder = tempFolder()
  folder.file("pytorch_model.bin", "x")
  expect(errorOf(() => openModelWeights(folder.path)).hint).toContain("pytorch_model.bin")
  expect(errorOf(() => openModelWeights(join(folder.path, "none"))).message).toContain("no such folder")
})
