import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serverPool, vllmServer, type InferenceServer } from "@cohort/inference"
import { startFakeServer, type FakeServer } from "@cohort/inference/testing"
import { checksumFile, openModelWeights, writeSafetensors } from "@cohort/safetensors"
import { filesystemTransfer, type FileTransferOptions } from "./filesystem.ts"
import { noTransfer } from "./none.ts"
import type { WeightSource, WeightTensor } from "./protocol.ts"
import { processOwners } from "./run-folder.ts"
import { sharedMemoryTransfer } from "./shared-memory.ts"
import { nodeFiles } from "./transfer-files.ts"

let dir = ""
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-transfer-"))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

/** Tensors of four bytes each whose content is `value`. */
function sourceOf(names: readonly string[], value: () => number, given: readonly string[] = names): WeightSource {
  return {
    names,
    companionFiles: { "config.json": "{}", "tokenizer.json": new Uint8Array([123, 125]) },
    async *tensors(): AsyncGenerator<WeightTensor> {
      for (const [index, name] of given.entries()) yield { name, dtype: "F32", shape: [1], bytes: new Uint8Array(Float32Array.of(value() + index).buffer) }
    },
  }
}

const names = ["model.embed", "model.layers.0.w", "model.layers.1.w"]
const connect = (fake: FakeServer, name: string) => vllmServer({ url: fake.url, model: "policy", name, route: "generate", retry: { attempts: 1 } })
const transferTo = (over: Partial<FileTransferOptions> = {}) => filesystemTransfer({ dir, ...over })
const runFolders = async () => (await readdir(dir)).filter((name) => name.startsWith("run."))
const versionsOnDisk = async () => (await readdir(join(dir, (await runFolders())[0]!))).toSorted()
const sampling = { maxTokens: 2, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [], seed: 1 }
const generate = (server: InferenceServer) => server.generate({ promptIds: Int32Array.of(1), n: 1, sampling, signal: new AbortController().signal })

describe("a push", () => {
  test("reaches every server as a whole model folder, and tells bytes and times", async () => {
    await using a = await startFakeServer()
    await using b = await startFakeServer()
    const servers = [connect(a, "a"), connect(b, "b")]
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 12), servers)
    const report = await transfer.push(12)
    const folder = a.engine.folder!
    expect(report).toMatchObject({ version: 12, servers: [{ name: "a", ok: true }, { name: "b", ok: true }] })
    expect(report.pausedSeconds).toBeLessThanOrEqual(report.seconds)
    expect(report.bytes).toBe(Bun.file(join(folder, "model.safetensors")).size)
    for (const fake of [a, b]) {
      expect(fake.engine).toMatchObject({ version: "12", folder, paused: false })
      expect(fake.requests.map(({ path }) => path)).toEqual(["/resume", "/pause", "/collective_rpc", "/update_weight_version", "/resume"])
    }
    expect((await readdir(folder)).toSorted()).toEqual(["config.json", "model.safetensors", "tokenizer.json", "weights.json"])
    expect(await Bun.file(join(folder, "weights.json")).json()).toEqual({
      version: 12,
      bytes: report.bytes,
      files: [{ name: "model.safetensors", bytes: report.bytes, checksum: await checksumFile(join(folder, "model.safetensors")) }],
    })
    using read = openModelWeights(folder)
    for (const [index, name] of names.entries()) expect([...new Float32Array(read.bytes(name).slice().buffer)]).toEqual([12 + index])
    expect((await generate(servers[0]!))[0]!.versions).toEqual([[0, 12]])
    await transfer.close()
    expect(await readdir(dir)).toEqual([])
  })

  test("takes the file of a source that writes one itself, unless files of a size are asked for", async () => {
    await using a = await startFakeServer()
    const plain = sourceOf(names, () => 5)
    let asked = 0
    const source = {
      ...plain,
      async writeFile(path: string, metadata: Readonly<Record<string, string>>) {
        asked++
        const bytes = await writeSafetensors(path, await Array.fromAsync(plain.tensors()), { metadata })
        return { bytes, checksum: await checksumFile(path) }
      },
    }
    const transfer = transferTo()
    await transfer.init(source, [connect(a, "a")])
    const report = await transfer.push(7)
    const path = join(a.engine.folder!, "model.safetensors")
    expect(report.bytes).toBe(Bun.file(path).size)
    expect(await Bun.file(join(a.engine.folder!, "weights.json")).json()).toMatchObject({ files: [{ name: "model.safetensors", checksum: await checksumFile(path) }] })
    using read = openModelWeights(a.engine.folder!)
    for (const [index, name] of names.entries()) expect([...new Float32Array(read.bytes(name).slice().buffer)]).toEqual([5 + index])
    await transfer.close()
    const sharded = transferTo({ shardBytes: 8 })
    await sharded.init(source, [connect(a, "a")])
    await sharded.push(8)
    expect((await readdir(a.engine.folder!)).filter((name) => name.startsWith("model-"))).toHaveLength(2)
    expect(asked).toBe(1)
    await sharded.close()
  })

  test("a source whose file fails leaves nothing and no server hears of it", async () => {
    await using a = await startFakeServer()
    const full = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" })
    const transfer = transferTo()
    await transfer.init({ ...sourceOf(names, () => 1), writeFile: () => Promise.reject(full) }, [connect(a, "a")])
    await expect(transfer.push(1)).rejects.toMatchObject({ code: "disk_full" })
    expect(await versionsOnDisk()).toEqual([])
    expect(a.requests.map(({ path }) => path)).toEqual(["/resume"])
    await transfer.close()
  })

  test("of a large model makes several files with an index that finds every tensor", async () => {
    await using a = await startFakeServer()
    const transfer = transferTo({ shardBytes: 8 })
    await transfer.init(sourceOf(names, () => 1), [connect(a, "a")])
    await transfer.push(1)
    expect((await readdir(a.engine.folder!)).filter((name) => name.startsWith("model")).toSorted()).toEqual(["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"])
    using read = openModelWeights(a.engine.folder!)
    expect([...new Float32Array(read.bytes(names[2]!).slice().buffer)]).toEqual([3])
    await transfer.close()
  })

  test.each([
    ["a missing tensor", names.slice(0, 2), /1 missing: model.layers.1.w/],
    ["an unexpected one", [...names, "lm_head"], /1 unexpected or given twice: lm_head/],
    ["one given twice", [...names, names[0]!], /given twice: model.embed/],
  ])("of a source with %s is refused before any server hears of it", async (_, given, message) => {
    await using a = await startFakeServer()
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 1, given), [connect(a, "a")])
    await expect(transfer.push(1)).rejects.toMatchObject({ code: "transfer_failed", message: expect.stringMatching(message) })
    expect(a.requests.map(({ path }) => path)).toEqual(["/resume"])
    expect(await versionsOnDisk()).toEqual([])
    await transfer.close()
  })

  test("names the first five of many missing tensors and their count", async () => {
    const many = Array.from({ length: 9 }, (_, i) => `t${i}`)
    const transfer = transferTo()
    await transfer.init(sourceOf(many, () => 1, ["t0"]), [])
    await expect(transfer.push(1)).rejects.toThrow("8 missing: t1, t2, t3, t4, t5 and 3 more")
    await transfer.close()
  })

  test("on a full disk is disk_full and leaves nothing behind", async () => {
    const full = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" })
    const files = { ...nodeFiles, writeFile: (path: string, data: string | Uint8Array) => (path.endsWith("config.json") ? Promise.reject(full) : nodeFiles.writeFile(path, data)) }
    const transfer = transferTo({ files })
    await transfer.init(sourceOf(names, () => 1), [])
    await expect(transfer.push(1)).rejects.toMatchObject({ code: "disk_full" })
    expect(await versionsOnDisk()).toEqual([])
    await transfer.close()
  })

  test("can be aborted while it writes, with nothing left and no server paused", async () => {
    await using a = await startFakeServer()
    const controller = new AbortController()
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => (controller.abort(new Error("stop")), 1)), [connect(a, "a")])
    await expect(transfer.push(1, controller.signal)).rejects.toMatchObject({ code: "aborted" })
    expect(await versionsOnDisk()).toEqual([])
    expect(a.engine.paused).toBe(false)
    await transfer.close()
  })

  test("is refused before init, after close, twice at once and for what is no version", async () => {
    const transfer = transferTo()
    await expect(transfer.push(1)).rejects.toThrow("before init")
    await transfer.init(sourceOf(names, () => 1), [])
    await expect(transfer.push(-1)).rejects.toThrow("push of version -1")
    const first = transfer.push(1)
    await expect(transfer.push(2)).rejects.toThrow("while version 1 is still being pushed")
    await first
    await transfer.close()
    await expect(transfer.push(3)).rejects.toThrow("after close")
  })
})

describe("when a server fails", () => {
  test("the others go on, it is told in the report, resumed on its last weights, and their folder stays", async () => {
    await using a = await startFakeServer()
    await using b = await startFakeServer()
    const servers = [connect(a, "a"), connect(b, "b")]
    const transfer = transferTo({ keep: 1 })
    await transfer.init(sourceOf(names, () => 1), servers)
    await transfer.push(1)
    for (const version of [2, 3, 4]) {
      a.fail("/collective_rpc", { kind: "status", status: 500, body: { error: { message: "out of memory" } } })
      const report = await transfer.push(version)
      expect(report.servers).toMatchObject([{ name: "a", ok: false, error: expect.stringContaining("out of memory") }, { name: "b", ok: true }])
    }
    expect((await generate(servers[0]!))[0]!.versions).toEqual([[0, 1]])
    expect((await generate(servers[1]!))[0]!.versions).toEqual([[0, 4]])
    expect(await versionsOnDisk()).toEqual(["policy-v1", "policy-v4"])
    await transfer.push(5)
    expect(await versionsOnDisk()).toEqual(["policy-v5"])
    await transfer.close()
  })

  test("all of them, or one under the policy fail: transfer_failed with each server's words, all resumed", async () => {
    await using a = await startFakeServer()
    await using b = await startFakeServer()
    const servers = [connect(a, "a"), connect(b, "b")]
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 1), servers)
    for (const fake of [a, b]) fake.fail("/collective_rpc", { kind: "status", status: 500, body: { error: { message: "bad shape" } } })
    await expect(transfer.push(1)).rejects.toMatchObject({ code: "transfer_failed", message: expect.stringMatching(/0 of 2 servers: a: .*bad shape.*b: .*bad shape/) })
    expect([a.engine.paused, b.engine.paused]).toEqual([false, false])
    expect((await transfer.push(1)).servers.every(({ ok }) => ok)).toBe(true)
    await transfer.close()

    const strict = transferTo({ onServerFailure: "fail" })
    await strict.init(sourceOf(names, () => 1), servers)
    a.fail("/pause", { kind: "status", status: 400 })
    await expect(strict.push(2)).rejects.toThrow(/reached 1 of 2 servers: a: .*400/)
    expect(b.engine).toMatchObject({ version: "2", paused: false })
    await strict.close()
  })

  test("a hanging call ends at its limit, is named, and the server is resumed", async () => {
    await using a = await startFakeServer()
    await using b = await startFakeServer()
    const transfer = transferTo({ pauseTimeoutMs: 60 })
    await transfer.init(sourceOf(names, () => 1), [connect(a, "a"), connect(b, "b")])
    a.fail("/pause", { kind: "hang" })
    const report = await transfer.push(1)
    expect(report.servers[0]).toMatchObject({ ok: false, error: "pause of a took longer than 0.06 s" })
    expect(report.pausedSeconds).toBeLessThan(5)
    expect(a.requests.at(-1)!.path).toBe("/resume")
    await transfer.close()
  })

  test("with weights unknown it stays paused rather than dies, and the next push heals it", async () => {
    await using a = await startFakeServer()
    const server = connect(a, "a")
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 1), [server])
    await transfer.push(1)
    a.fail("/collective_rpc", { kind: "status", status: 500 }, 2)
    await expect(transfer.push(2)).rejects.toThrow(/stays paused.*not resumed/)
    expect(a.engine.paused).toBe(true)
    await transfer.push(3)
    expect((await generate(server))[0]!.versions).toEqual([[0, 3]])
    expect(a.dead).toBe(false)
    await transfer.close()
  })
})

test("a pool's members are updated one by one, and the one that missed it catches up from the folder that is kept", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], { now: () => performance.now(), probeAfterMs: 5 })
  const transfer = transferTo()
  await transfer.init(sourceOf(names, () => 1), pool.members)
  await transfer.push(1)
  a.fail("/pause", { kind: "status", status: 503 })
  a.fail("/collective_rpc", { kind: "status", status: 500 })
  await transfer.push(2)
  expect((await transfer.push(3)).servers.map(({ ok }) => ok)).toEqual([false, true])
  expect(pool.status.map(({ aside }) => aside === undefined)).toEqual([false, true])
  await pool.probe()
  expect(pool.status[0]).toMatchObject({ aside: undefined, version: 3 })
  expect(a.engine).toMatchObject({ version: "3", folder: b.engine.folder })
  await transfer.close()
})

describe("init", () => {
  test("resumes servers that a killed run left paused", async () => {
    await using a = await startFakeServer()
    await a.engine.pause("keep")
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 1), [connect(a, "a")])
    expect(a.engine.paused).toBe(false)
    await transfer.close()
  })

  test("fails when no server can be resumed, tells when some cannot", async () => {
    await using a = await startFakeServer()
    await using b = await startFakeServer()
    await b.close()
    await expect(transferTo().init(sourceOf(names, () => 1), [connect(b, "b")])).rejects.toMatchObject({ code: "transfer_failed", message: expect.stringContaining("b: POST /resume") })
    const said: string[] = []
    const transfer = transferTo({ log: (message) => said.push(message) })
    await transfer.init(sourceOf(names, () => 1), [connect(a, "a"), connect(b, "b")])
    expect(said).toEqual([expect.stringMatching(/^not resumed at the start: b:/)])
    await transfer.close()
  })

  test("sweeps folders of dead processes of this machine and leaves all others", async () => {
    const { self } = processOwners()
    const child = Bun.spawn(["true"])
    await child.exited
    const gone = `run.${self.host}.${child.pid}.1.ab`
    const reused = `run.${self.host}.${process.pid}.1.ab`
    const alive = `run.${self.host}.${process.pid}.${self.started}.ab`
    const elsewhere = `run.other-host.${child.pid}.1.ab`
    for (const name of [gone, reused, alive, elsewhere, "notes"]) await mkdir(join(dir, name, "policy-v1"), { recursive: true })
    await writeFile(join(dir, "run.txt"), "")
    const transfer = transferTo({ unique: () => "cd" })
    await transfer.init(sourceOf(names, () => 1), [])
    const own = `run.${self.host}.${process.pid}.${self.started}.cd`
    expect((await readdir(dir)).toSorted()).toEqual([alive, elsewhere, "notes", own, "run.txt", ...(self.started === "0" ? [reused] : [])].toSorted())
    await transfer.close()
    expect(existsSync(join(dir, own))).toBe(false)
  })

  test("a killed run's weights are swept by the next", async () => {
    const script = `
      import { filesystemTransfer } from ${JSON.stringify(join(import.meta.dir, "filesystem.ts"))}
      const transfer = filesystemTransfer({ dir: process.argv[1] })
      await transfer.init({ names: ["w"], companionFiles: {}, *tensors() { yield { name: "w", dtype: "F32", shape: [1], bytes: new Uint8Array(4) } } }, [])
      await transfer.push(1)
      process.kill(process.pid, "SIGKILL")`
    const child = Bun.spawn(["bun", "-e", script, dir], { cwd: import.meta.dir, stderr: "inherit" })
    await child.exited
    const left = await runFolders()
    expect(left).toHaveLength(1)
    expect(await readdir(join(dir, left[0]!))).toEqual(["policy-v1"])
    const transfer = transferTo()
    await transfer.init(sourceOf(names, () => 1), [])
    expect(await runFolders()).not.toContain(left[0]!)
    await transfer.close()
  })

  test.each(["../config.json", "model.safetensors", "weights.json", ".hidden"])("refuses the companion file %s", async (name) => {
    await expect(transferTo().init({ ...sourceOf(names, () => 1), companionFiles: { [name]: "" } }, [])).rejects.toThrow(`may not be named ${name}`)
  })
})

describe("shared memory", () => {
  const options = () => ({ sharedMemoryDir: join(dir, "shm"), fallbackDir: join(dir, "tmp"), folderName: "w", freeMemoryBytes: () => 1e12 })
  const statfs = (bytes: number) => ({ ...nodeFiles, statfs: async () => ({ bavail: bytes, bsize: 1 }) })

  test("is used when it has room for the kept versions and one more, measured from the source", async () => {
    await mkdir(join(dir, "shm"))
    const transfer = sharedMemoryTransfer({ ...options(), files: statfs(36) })
    await transfer.init(sourceOf(names, () => 1), [])
    expect(transfer.location).toEqual({ dir: join(dir, "shm", "w"), why: `${join(dir, "shm")} has 0.0 MB free, 0.0 MB are needed` })
    await transfer.push(1)
    await transfer.close()
    expect(await readdir(join(dir, "shm", "w"))).toEqual([])
  })

  test.each([
    ["too small", { files: statfs(35) }, /shm has .* free, .* are needed/],
    ["missing", {}, /cannot be used: ENOENT/],
    ["larger than the free memory", { files: statfs(1e12), freeMemoryBytes: () => 10 }, /of memory may be used/],
    ["too small for what is expected", { files: statfs(2e9), expectedBytes: 1e9 }, /has 2.0 GB free, 3.0 GB are needed/],
  ])("gives way to the temporary folder when it is %s, and says why", async (_, over, why) => {
    const said: string[] = []
    const transfer = sharedMemoryTransfer({ ...options(), ...over, log: (message) => said.push(message) })
    await transfer.init(sourceOf(names, () => 1), [])
    expect(transfer.location?.dir).toBe(join(dir, "tmp", "w"))
    expect(transfer.location?.why).toMatch(why)
    expect(said[0]).toContain(transfer.location!.why)
    await transfer.close()
  })

  test("push before init is refused", async () => {
    await expect(sharedMemoryTransfer().push(1)).rejects.toThrow("before init")
  })
})

test("no transfer reports no bytes and no server", async () => {
  const transfer = noTransfer()
  await transfer.init(sourceOf(names, () => 1), [])
  expect(await transfer.push(3)).toEqual({ version: 3, bytes: 0, seconds: 0, pausedSeconds: 0, servers: [] })
  await transfer.close()
})
