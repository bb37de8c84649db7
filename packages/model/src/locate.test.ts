// Where a model is found: folders first, then the hub, of which only what is read is fetched.
import { expect, test } from "bun:test"
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { type CohortError, isCohortError } from "@cohort/errors"
import { createHubClient, hubSettings } from "@cohort/hub"
import { commit, temporaryFolder, testHub } from "@cohort/hub/testing"
import { checkModelPath, locateModel } from "./locate.ts"

const texts = { "config.json": "{}", "tokenizer.json": "{}", "chat_template.jinja": "x", "README.md": "x", "modeling.py": "x", "onnx/config.json": "x", "pytorch_model.bin": "x" }
const index = JSON.stringify({ weight_map: { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors", c: "model-00001-of-00002.safetensors" } })
const repos = {
  "models/org/single": { ...texts, "model.safetensors": "weights", "model.safetensors.index.json": index, "consolidated.safetensors": "x" },
  "models/org/sharded": { ...texts, "model.safetensors.index.json": index, "model-00001-of-00002.safetensors": "one", "model-00002-of-00002.safetensors": "two", "other.safetensors": "x" },
  "models/org/pickled": { "config.json": "{}", "pytorch_model.bin": "x" },
}

function setUp() {
  const hub = testHub(repos)
  const folder = temporaryFolder()
  const client = createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(folder.path, "cache") }))
  return { hub, base: folder.path, options: { baseDir: folder.path, hub: client }, [Symbol.dispose]: () => (hub[Symbol.dispose](), folder[Symbol.dispose]()) }
}
async function errorOf(work: Promise<unknown>): Promise<CohortError> {
  const thrown = await work.then(() => undefined, (error: unknown) => error)
  if (!isCohortError(thrown)) throw new Error(`not a typed error: ${String(thrown)}`)
  return thrown
}

test("a folder is taken as it is, also by a file: address, and wins over the hub", async () => {
  using set = setUp()
  const folder = join(set.base, "org/single")
  mkdirSync(folder, { recursive: true })
  for (const path of ["org/single", folder, pathToFileURL(folder).href]) expect(await locateModel(path, set.options)).toEqual({ folder })
  expect(set.hub.requests).toEqual([])
})

test("of a model on the hub only what is read is fetched, at one commit", async () => {
  using set = setUp()
  const single = await locateModel("org/single@main", set.options)
  expect(single.commit).toBe(commit)
  expect(readdirSync(single.folder).toSorted()).toEqual(["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"])
  const sharded = await locateModel("org/sharded", { ...set.options, commit })
  expect(readdirSync(sharded.folder).toSorted()).toEqual(["chat_template.jinja", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json"])
  expect(set.hub.requests.map(({ path }) => path)).toContain(`/api/models/org/sharded/revision/${commit}`)
})

test("what is nowhere is refused by both places, a name that is no hub's by its folder", async () => {
  using set = setUp()
  expect(await errorOf(locateModel("models/mistyped", set.options))).toMatchObject({
    code: "model_invalid",
    message: expect.stringContaining(`there is no folder ${join(set.base, "models/mistyped")}, and on the hub: model models/mistyped at main: the hub answered 404`),
  })
  expect(await errorOf(locateModel("./mistyped", set.options))).toMatchObject({ code: "model_invalid", message: `there is no folder ${join(set.base, "mistyped")}`, hint: expect.stringContaining("organisation/name") })
  expect((await errorOf(locateModel("org/pickled", set.options))).message).toBe("org/pickled on the hub holds no safetensors")
  writeFileSync(join(set.base, "model.safetensors"), "")
  expect((await errorOf(locateModel("model.safetensors", set.options))).message).toContain("is a file, a model is a folder")
})

test("a check fetches no weights", async () => {
  using set = setUp()
  await checkModelPath("org/single", set.options)
  expect(set.hub.requests.every(({ path }) => path.startsWith("/api/"))).toBe(true)
  expect((await errorOf(checkModelPath("org/pickled", set.options))).message).toBe("org/pickled has no tokenizer.json")
  mkdirSync(join(set.base, "empty"))
  expect((await errorOf(checkModelPath("empty", set.options))).message).toBe(`${join(set.base, "empty")} has no config.json`)
})
