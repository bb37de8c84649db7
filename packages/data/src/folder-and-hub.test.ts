import { describe, expect, test } from "bun:test"
import { createHubClient, type HubClient, hubSettings } from "@cohort/hub"
import { errorOf, folderOf, jsonl } from "../test/fixtures.ts"
import { openDataset } from "./dataset.ts"
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
  test("fetches the files of the split at the revision, nothing else", async () => {
    using folder = folderOf({ "train.jsonl": row("a"), "test.jsonl": row("b") })
    const asked: string[] = []
    const hub: HubClient = {
      async open({ kind, name, revision }) {
        asked.push(`open ${kind} ${name} ${revision}`)
        return { commit: "c", files: ["train.jsonl", "test.jsonl"], load: async (paths) => (asked.push(`fetch ${paths.join()}`), folder.path) }
      },
    }
    expect((await openDataset({ path: "org/name@v1", split: "test", hub })).at(0).prompt).toBe("b")
    expect((await openDataset({ path: "org/name", hub })).at(0).prompt).toBe("a")
    expect(asked).toEqual(["open dataset org/name v1", "fetch test.jsonl", "open dataset org/name main", "fetch train.jsonl"])
  })

  test("offline, the cache that Python fills is read", async () => {
    using folder = folderOf({ "datasets--org--name/refs/main": "abc\n", "datasets--org--name/snapshots/abc/data/train.jsonl": row("cached") })
    const hub = createHubClient(hubSettings({ HF_HUB_OFFLINE: "1", HF_HUB_CACHE: folder.path }))
    expect((await openDataset({ path: "org/name", hub })).at(0).prompt).toBe("cached")
    expect((await errorOf(() => openDataset({ path: "org/other", hub }))).message).toContain("org/other at main is not in the cache")
  })
})
