import { add, tensor, tidy } from "@tensorflow/tfjs-core"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openDefaultRuntime } from "./default.ts"
import { type Host, systemHost } from "./install/host.ts"
import { loadHint, openLibrary } from "./library.ts"
import { libraryPath } from "./testing/runtime.ts"
import { xlaCacheFolder } from "./xla-cache.ts"

const signal = AbortSignal.timeout(60_000)
let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cohort-default-"))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

function works(): void {
  tidy(() => expect([...add(tensor([1, 2]), 1).dataSync()]).toEqual([2, 3]))
}

describe("openDefaultRuntime", () => {
  test("falls back to wasm with the reason and the way to the fast one", async () => {
    const runtime = await openDefaultRuntime({ env: { COHORT_CACHE: dir }, signal, allowInstall: false })
    expect(runtime.info).toMatchObject({ backend: "wasm", threads: 1 })
    expect(runtime.info.because).toContain("tensorflow is not used: the tensor runtime is not installed")
    expect(runtime.info.because).toEndWith("Install it with: cohort runtime install")
    expect([runtime.whileLoop, runtime.cluster, runtime.raw]).toEqual([undefined, undefined, undefined])
    works()
    runtime.close()
  })

  test("falls back when the platform has no library, without trying to install", async () => {
    const host: Host = { ...systemHost(), platform: "sunos-x64" }
    const runtime = await openDefaultRuntime({ env: { COHORT_CACHE: dir }, signal, host })
    expect(runtime.info.backend).toBe("wasm")
    expect(runtime.info.because).toContain("there is no tensor runtime for sunos-x64")
    runtime.close()
  })

  test("falls back when the installation fails", async () => {
    // The cache folder lies under a file, so nothing can be written there.
    const file = join(dir, "file")
    writeFileSync(file, "")
    const runtime = await openDefaultRuntime({ env: { COHORT_CACHE: join(file, "cache") }, signal })
    expect(runtime.info.backend).toBe("wasm")
    expect(runtime.info.because).toContain("Set COHORT_CACHE to a folder that you may write to.")
    runtime.close()
    await expect(openDefaultRuntime({ env: { COHORT_CACHE: join(file, "cache") }, signal, backend: "tensorflow" })).rejects.toMatchObject({ code: "runtime_unavailable" })
  })

  test("an abort ends the installation and falls back to nothing", async () => {
    await expect(openDefaultRuntime({ env: { COHORT_CACHE: join(dir, "aborted") }, signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" })
  })

  test("COHORT_TENSOR_BACKEND goes before the option", async () => {
    for (const backend of ["cpu", "wasm"] as const) {
      const runtime = await openDefaultRuntime({ env: { COHORT_TENSOR_BACKEND: backend }, signal, backend: "tensorflow" })
      expect(runtime.info).toMatchObject({ backend, because: `COHORT_TENSOR_BACKEND asks for ${backend}.` })
      works()
      runtime.close()
    }
    await expect(openDefaultRuntime({ env: { COHORT_TENSOR_BACKEND: "cuda" }, signal })).rejects.toMatchObject({
      code: "config_invalid",
      message: 'COHORT_TENSOR_BACKEND is "cuda"',
      hint: "It can be auto, tensorflow, wasm, cpu.",
    })
  })

  test("a library that the user named is never replaced", async () => {
    await expect(openDefaultRuntime({ env: { COHORT_LIBTENSORFLOW: join(dir, "none.so"), COHORT_CACHE: dir }, signal })).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("which does not exist"),
    })
    const broken = join(dir, "libtensorflow_cc.so.2")
    writeFileSync(broken, "\x7fELF and nothing more")
    writeFileSync(join(dir, "libtensorflow_framework.so.2"), "")
    await expect(openDefaultRuntime({ env: { COHORT_LIBTENSORFLOW: broken, COHORT_CACHE: dir }, signal })).rejects.toMatchObject({
      code: "runtime_unavailable",
      message: expect.stringContaining("does not load"),
    })
  })

  test.skipIf(libraryPath === undefined)("opens the library that is found and keeps compiled programs in the cache", async () => {
    // A process of its own: the library reads the folder once.
    const script = `
      import { tensor, mul, sigmoid, sum } from "@tensorflow/tfjs-core"
      const { openDefaultRuntime } = await import(${JSON.stringify(new URL("./default.ts", import.meta.url).href)})
      const runtime = await openDefaultRuntime({ env: process.env, signal: AbortSignal.timeout(60_000), allowInstall: false })
      const f = runtime.compile((x) => { for (let i = 0; i < 40; i++) x = mul(sigmoid(x), sum(x)); return [x] }, { name: "f" })
      const [value] = f(tensor([1, 2]))
      console.log(JSON.stringify({ info: runtime.info, value: [...value.dataSync()] }))`
    const start = async (): Promise<{ info: object; value: number[] }> => {
      const child = Bun.spawn([process.execPath, "-e", script], {
        cwd: import.meta.dir,
        env: { ...process.env, COHORT_LIBTENSORFLOW: libraryPath!, COHORT_CACHE: join(dir, "cache"), COHORT_TENSOR_BACKEND: "" },
        stdout: "pipe",
        stderr: "inherit",
        timeout: 60_000,
      })
      return JSON.parse(await child.stdout.text()) as { info: object; value: number[] }
    }
    const cold = await start()
    expect(cold.info).toMatchObject({ backend: "tensorflow", because: "" })
    const [folder, ...more] = readdirSync(join(dir, "cache", "xla"))
    expect(more).toEqual([])
    const programs = readdirSync(join(dir, "cache", "xla", folder!))
    expect(programs.length).toBeGreaterThan(0)
    // The second start adds nothing: it finds all its programs.
    expect((await start()).value).toEqual(cold.value)
    expect(readdirSync(join(dir, "cache", "xla", folder!))).toEqual(programs)
  }, 60_000)
})

test("the folder of compiled programs follows the library and the CPU", () => {
  const runtime = { libraryPath: "/x", version: "2.21.0", source: "cache", kind: "cpu" } as const
  const cpu = "processor\t: 0\nmodel name\t: A\nflags\t\t: avx2 fma\n"
  const folder = xlaCacheFolder("/cache", runtime, cpu)
  expect(folder).toStartWith("/cache/xla/2.21.0-cpu-")
  expect(xlaCacheFolder("/cache", runtime, cpu.replace("avx2 fma", "fma avx2"))).toBe(folder)
  for (const other of [cpu.replace("fma", "fma avx512f"), cpu.replace(": A", ": B"), ""]) expect(xlaCacheFolder("/cache", runtime, other)).not.toBe(folder)
  expect(xlaCacheFolder("/cache", { ...runtime, version: "2.22.0" }, cpu)).not.toBe(folder)
})

test("what the loader says becomes advice", () => {
  expect(loadHint('Failed to open library "/a/libtensorflow_cc.so.2": libstdc++.so.6: cannot open shared object file: No such file or directory')).toContain("apt-get install libstdc++6")
  expect(loadHint("/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /a/libtensorflow_cc.so.2)")).toContain("libstdc++6")
  expect(loadHint("/lib/libc.so.6: version `GLIBC_2.27' not found")).toContain("newer distribution")
  expect(loadHint("/a/libtensorflow_cc.so.2: wrong ELF class: ELFCLASS32")).toContain("not a library for this CPU")
  expect(loadHint('Failed to open library "/a/x.so.2": libcudart.so.12: cannot open shared object file: No such file')).toBe("Install the system package that holds libcudart.so.12, or add its folder to LD_LIBRARY_PATH.")
  expect(() => openLibrary(join(dir, "absent.so"))).toThrow("no file at")
  const text = join(dir, "text.so")
  writeFileSync(text, "not a library")
  expect(() => openLibrary(text)).toThrow(/text\.so does not load: .*/)
})
