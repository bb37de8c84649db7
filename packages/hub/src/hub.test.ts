import { expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type CohortError, isCohortError } from "@cohort/errors"
import { commit, temporaryFolder, testHub } from "./testing/hub.ts"
import { createHubClient } from "./create-client.ts"
import { parseHubName } from "./name.ts"
import { hubSettings } from "./settings.ts"

const weights = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) % 251)
const repos = { "models/org/tiny": { "config.json": "{}", "model.safetensors": weights, "onnx/model.onnx": "x" }, "models/org/gated": {}, "datasets/org/rows": { "train.jsonl": '{"prompt":"a"}' } }
const tiny = { kind: "model", name: "org/tiny", revision: "main" } as const

async function errorOf(work: Promise<unknown>): Promise<CohortError> {
  const thrown = await work.then(() => undefined, (error: unknown) => error)
  if (!isCohortError(thrown)) throw new Error(`not a typed error: ${String(thrown)}`)
  return thrown
}
const blobsIn = (cache: string): string[] => readdirSync(join(cache, "models--org--tiny", "blobs"))

test("a model's files come into the cache as Python lays it out, with the token; a second time nothing is fetched", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const client = createHubClient(hubSettings({ HF_ENDPOINT: `${hub.endpoint}/`, HF_TOKEN: "hf_test", HF_HUB_CACHE: cache.path }))
  const snapshot = await client.open(tiny)
  expect([snapshot.commit, snapshot.files]).toEqual([commit, ["config.json", "model.safetensors", "onnx/model.onnx"]])
  const progress: number[] = []
  const folder = await snapshot.load(["config.json", "model.safetensors"], { onProgress: ({ bytes, totalBytes }) => progress.push(bytes / totalBytes) })
  expect(folder).toBe(join(cache.path, "models--org--tiny/snapshots", commit))
  expect(new Uint8Array(readFileSync(join(folder, "model.safetensors")))).toEqual(weights)
  expect(readFileSync(join(cache.path, "models--org--tiny/refs/main"), "utf8")).toBe(commit)
  expect(readlinkSync(join(folder, "config.json"))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/)
  expect(progress.at(-1)).toBe(1)
  expect(progress).toEqual(progress.toSorted((a, b) => a - b))
  expect(new Set(hub.requests.map(({ authorization }) => authorization))).toEqual(new Set(["Bearer hf_test"]))
  const before = hub.requests.length
  await (await client.open(tiny)).load(["config.json", "model.safetensors"])
  expect(hub.requests.slice(before).every(({ path }) => path.startsWith("/api/"))).toBe(true)
})

test("a download that broke goes on from its last byte", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const client = createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path }))
  const snapshot = await client.open(tiny)
  hub.cutAfter = 100_000
  const error = await errorOf(snapshot.load(["model.safetensors"]))
  expect(["file_invalid", "model_invalid"]).toContain(error.code)
  expect(blobsIn(cache.path)).toEqual([expect.stringMatching(/\.incomplete$/)])
  const before = hub.requests.length
  const folder = await snapshot.load(["model.safetensors"])
  expect(hub.requests.slice(before).map(({ range }) => range)).toContain("bytes=100000-299999")
  expect(new Uint8Array(readFileSync(join(folder, "model.safetensors")))).toEqual(weights)
  expect(blobsIn(cache.path)).toHaveLength(1)
})

test("what a process that is gone had fetched is taken over; a living one's is left alone", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const snapshot = await createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path })).open(tiny)
  const folder = await snapshot.load(["config.json"])
  const blobs = join(folder, "../../blobs")
  const hash = new Bun.CryptoHasher("sha256").update(weights).digest("hex")
  const gone = Bun.spawn(["true"])
  await gone.exited
  writeFileSync(join(blobs, `${hash}.${gone.pid}-0.incomplete`), weights.slice(0, 200_000))
  const other = `${hash}.${process.ppid}-0.incomplete`
  writeFileSync(join(blobs, other), weights.slice(0, 250_000))
  await Promise.all([snapshot.load(["model.safetensors"]), snapshot.load(["model.safetensors"])])
  expect(hub.requests.map(({ range }) => range)).toContain("bytes=200000-299999")
  expect(hub.requests.map(({ range }) => range)).not.toContain("bytes=250000-299999")
  expect(new Uint8Array(readFileSync(join(folder, "model.safetensors")))).toEqual(weights)
  expect(existsSync(join(blobs, other))).toBe(true)
})

test("content with another hash is refused and not kept", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const snapshot = await createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path })).open(tiny)
  hub.corrupt = true
  for (const path of ["config.json", "model.safetensors"]) expect(await errorOf(snapshot.load([path]))).toMatchObject({ code: "file_invalid", message: expect.stringContaining(`${path}: the downloaded content has the hash`) })
  expect(blobsIn(cache.path)).toEqual([])
})

test("an abort ends a download, and what came stays for the next", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const snapshot = await createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path })).open(tiny)
  const stop = new AbortController()
  const error = await errorOf(snapshot.load(["model.safetensors"], { signal: stop.signal, onProgress: ({ bytes }) => bytes > 0 && stop.abort() }))
  expect(error.code).toBe("aborted")
  expect(blobsIn(cache.path)).toEqual([expect.stringMatching(/\.incomplete$/)])
})

test("offline, the cache is read; what it lacks is named", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const online = await createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path })).open(tiny)
  const folder = await online.load(["config.json"])
  const offline = createHubClient(hubSettings({ HF_HUB_OFFLINE: "1", HF_HUB_CACHE: cache.path }))
  for (const revision of ["main", commit]) {
    const snapshot = await offline.open({ ...tiny, revision })
    expect([snapshot.commit, snapshot.files, await snapshot.load(["config.json"])]).toEqual([commit, ["config.json"], folder])
    expect((await errorOf(snapshot.load(["config.json", "model.safetensors"]))).message).toContain("model.safetensors is not in the cache, and HF_HUB_OFFLINE is set")
  }
  expect(await errorOf(offline.open({ kind: "dataset", name: "org/rows", revision: "main" }))).toMatchObject({ code: "dataset_invalid", message: expect.stringContaining("dataset org/rows at main is not in the cache") })
})

test("refusals and silence of the hub are typed, and say what to do", async () => {
  using hub = testHub(repos)
  using cache = temporaryFolder()
  const client = createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache.path }))
  expect(await errorOf(client.open({ ...tiny, name: "org/none" }))).toMatchObject({ code: "model_invalid", message: expect.stringContaining("model org/none at main: the hub answered 404: Repository not found"), hint: expect.stringContaining("HF_TOKEN") })
  expect(await errorOf(client.open({ ...tiny, revision: "v9" }))).toMatchObject({ code: "model_invalid", message: expect.stringContaining("model org/tiny at v9: the hub answered 404") })
  expect(await errorOf(client.open({ ...tiny, name: "org/gated" }))).toMatchObject({ code: "model_invalid", hint: expect.stringContaining("gated") })
  expect((await errorOf((await client.open(tiny)).load(["absent.json"]))).message).toBe("model org/tiny at main has no absent.json")
  const nowhere = createHubClient(hubSettings({ HF_ENDPOINT: "http://127.0.0.1:9", HF_HUB_CACHE: cache.path }))
  expect(await errorOf(nowhere.open(tiny))).toMatchObject({ code: "model_invalid", message: expect.stringContaining("http://127.0.0.1:9 cannot be reached"), hint: expect.stringContaining("HF_ENDPOINT") })
  await (await client.open(tiny)).load(["config.json"])
  expect((await errorOf(nowhere.open(tiny))).hint).toContain("HF_HUB_OFFLINE=1")
  const unwritable = createHubClient(hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: "/proc/none" }))
  expect(await errorOf(unwritable.open(tiny))).toMatchObject({ code: "model_invalid", hint: expect.stringContaining("HF_HUB_CACHE") })
  const stopped = new AbortController()
  stopped.abort()
  expect((await errorOf(client.open(tiny, stopped.signal))).code).toBe("aborted")
})

test("the cache is where Python has it", () => {
  expect(hubSettings({ HOME: "/homes/a" })).toEqual({ cacheDir: "/homes/a/.cache/huggingface/hub", offline: false })
  expect(hubSettings({ HOME: "/homes/a", XDG_CACHE_HOME: "/x" }).cacheDir).toBe("/x/huggingface/hub")
  expect(hubSettings({ HF_HOME: "/h", XDG_CACHE_HOME: "/x" }).cacheDir).toBe("/h/hub")
  expect(hubSettings({ HF_HUB_CACHE: "/c", HF_HOME: "/h", HF_TOKEN: "hf_a", HF_HUB_OFFLINE: "True" })).toEqual({ cacheDir: "/c", token: "hf_a", offline: true })
})

test("names of the hub", () => {
  expect(parseHubName("Qwen/Qwen3-0.6B")).toEqual({ name: "Qwen/Qwen3-0.6B", revision: "main" })
  expect(parseHubName("org/name@refs/pr/1")).toEqual({ name: "org/name", revision: "refs/pr/1" })
  for (const text of ["name", "/abs/path", "./a/b", "../b", "a/b/c", "a/..", "~/model", "a/b@", "C:\\m", ""]) expect([text, parseHubName(text)]).toEqual([text, undefined])
})
