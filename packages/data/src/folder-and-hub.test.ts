import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { errorOf, folderOf, jsonl } from "../test/fixtures.ts"
import { openDataset } from "./dataset.ts"
import { createHubClient, hubSettings, type HubClient } from "./hub.ts"
import { selectFiles } from "./select-files.ts"

const row = (prompt: string) => jsonl({ prompt })

describe("the files of a split", () => {
  test.each([
    ["shards in order", ["data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet", "data/test-00000-of-00001.parquet", "README.md"], {}, ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]],
    ["by file name", ["train.jsonl", "test.jsonl"], { split: "test" }, ["test.jsonl"]],
    ["by folder", ["train/a.jsonl", "test/a.jsonl"], {}, ["train/a.jsonl"]],
    ["a single file of another name", ["rows.jsonl", "dataset_infos.json", ".cache/train.jsonl"], {}, ["rows.jsonl"]],
    ["a subset", ["main/train-0.parquet", "socratic/train-0.parquet"], { subset: "main" }, ["main/train-0.parquet"]],
    ["a name that only begins alike", ["trainer.jsonl", "train.jsonl"], {}, ["train.jsonl"]],
  ])("%s", (_, paths, options, expected) => {
    expect(selectFiles(paths, options, "d")).toEqual(expected)
  })

  test.each([
    ["none", ["a.csv"], {}, "no file for split train; data files found: none"],
    ["several of other names", ["a.jsonl", "b.jsonl"], {}, "no file for split train; data files found: a.jsonl, b.jsonl"],
    ["a split that is not there", ["train.jsonl"], { split: "dev" }, "no file for split dev"],
    ["several subsets", ["main/train-0.parquet", "socratic/train-0.parquet"], {}, "split train is in more than one folder"],
    ["two formats", ["train.jsonl", "train.parquet"], {}, "more than one format"],
  ])("%s is refused", async (_, paths, options, message) => {
    expect((await errorOf(() => selectFiles(paths, options, "d"))).message).toContain(message)
  })
})

test("a folder is one dataset", async () => {
  using folder = folderOf({ "train-0.jsonl": row("a"), "train-1.jsonl": row("b"), "test.jsonl": row("t") })
  const source = await openDataset({ path: folder.path })
  expect([source.size, source.at(1).prompt]).toEqual([2, "b"])
})

describe("a hub dataset", () => {
  const hubOver = (root: string, asked: string[]): HubClient => ({
    list: async (repo, revision) => {
      asked.push(`list ${repo} ${revision}`)
      return ["train.jsonl", "test.jsonl"]
    },
    download: async (repo, path, revision) => {
      asked.push(`download ${repo} ${path} ${revision}`)
      return join(root, path)
    },
  })

  test("fetches the files of the split at the revision, nothing else", async () => {
    using folder = folderOf({ "train.jsonl": row("a"), "test.jsonl": row("b") })
    const asked: string[] = []
    const hub = hubOver(folder.path, asked)
    expect((await openDataset({ path: "org/name@v1", split: "test", hub })).at(0).prompt).toBe("b")
    expect((await openDataset({ path: "org/name", hub })).at(0).prompt).toBe("a")
    expect(asked).toEqual(["list org/name v1", "download org/name test.jsonl v1", "list org/name main", "download org/name train.jsonl main"])
  })

  test("offline, the cache that Python fills is read", async () => {
    using folder = folderOf({ "datasets--org--name/refs/main": "abc\n", "datasets--org--name/snapshots/abc/data/train.jsonl": row("cached") })
    const hub = createHubClient({ ...hubSettings({ HF_HUB_OFFLINE: "1" }), cacheDir: folder.path })
    expect((await openDataset({ path: "org/name", hub })).at(0).prompt).toBe("cached")
    expect((await errorOf(() => openDataset({ path: "org/other", hub }))).message).toContain("org/other at main is not in the cache")
  })

  test("online, the library talks to the endpoint with the token, and its refusal is told", async () => {
    const seen: (string | null)[] = []
    using server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch(request) {
        const { pathname } = new URL(request.url)
        seen.push(request.headers.get("authorization"))
        if (pathname === "/api/datasets/org/name/tree/main") return Response.json([{ type: "file", path: "train.jsonl", size: 14, oid: "1" }])
        return Response.json({ error: "Repository not found" }, { status: 404 })
      },
    })
    const hub = createHubClient(hubSettings({ HF_ENDPOINT: `http://127.0.0.1:${server.port}`, HF_TOKEN: "hf_test" }))
    expect(await hub.list("org/name", "main")).toEqual(["train.jsonl"])
    expect(seen).toEqual(["Bearer hf_test"])
    const error = await errorOf(() => hub.list("org/none", "main"))
    expect(error.code).toBe("dataset_invalid")
    expect(error.message).toContain("dataset org/none")
    expect((await errorOf(() => hub.list("org/name", "main", AbortSignal.abort()))).code).toBe("aborted")
  })
})
