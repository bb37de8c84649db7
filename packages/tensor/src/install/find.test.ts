import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { findRuntime, runtimeInfo } from "./find.ts"
import { cacheFolder } from "./folders.ts"
import { systemHost } from "./host.ts"
import { installRuntime } from "./install.ts"
import { pins } from "./pins.ts"
import { fakeRuntime } from "./testing/fake-pip.ts"

const host = { ...systemHost(), platform: "linux-x64", glibc: "2.36" }
let dir = ""
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-find-"))
})
afterAll(() => rm(dir, { recursive: true }))

describe("COHORT_LIBTENSORFLOW", () => {
  test("names a library, or a folder that holds one", async () => {
    const folder = join(dir, "own")
    await mkdir(folder)
    const libraryPath = join(folder, "libtensorflow_cc.so.2")
    await writeFile(libraryPath, "\x7fELF...")
    await writeFile(join(folder, "libtensorflow_framework.so.2"), "\x7fELF...")
    for (const value of [folder, libraryPath])
      expect(findRuntime({ env: { COHORT_LIBTENSORFLOW: value }, cacheDir: dir, host })).toEqual({
        status: "found",
        runtime: { libraryPath, version: "unknown", source: "COHORT_LIBTENSORFLOW", kind: undefined },
      })
  })

  test("is believed on a platform that has no pinned runtime", async () => {
    const lookup = findRuntime({ env: { COHORT_LIBTENSORFLOW: join(dir, "gone.so") }, host: { ...host, platform: "freebsd-x64" } })
    expect(lookup).toMatchObject({ status: "broken", reason: expect.stringContaining("does not exist") })
  })

  test("is checked and never falls back to the cache", async () => {
    const folder = join(dir, "faulty")
    await mkdir(join(folder, "empty"), { recursive: true })
    await writeFile(join(folder, "text.so"), "not a library")
    await writeFile(join(folder, "alone.so"), "\x7fELF...")
    const cases: readonly (readonly [string, string])[] = [
      ["none.so", "does not exist"],
      ["empty", "holds neither libtensorflow_cc.so.2"],
      ["text.so", "is not a shared library"],
      ["alone.so", "needs libtensorflow_framework.so.2 beside it"],
    ]
    for (const [name, reason] of cases) {
      const lookup = findRuntime({ env: { COHORT_LIBTENSORFLOW: join(folder, name) }, cacheDir: dir, host })
      expect(lookup).toMatchObject({ status: "broken", reason: expect.stringContaining(reason) })
    }
  })
})

test("the cache folder follows COHORT_CACHE, then XDG_CACHE_HOME if absolute, then the home folder", () => {
  expect(cacheFolder({ COHORT_CACHE: "/c", XDG_CACHE_HOME: "/x", HOME: "/h" }, "/fallback")).toBe("/c")
  expect(cacheFolder({ COHORT_CACHE: "", XDG_CACHE_HOME: "/x", HOME: "/h" }, "/fallback")).toBe("/x/cohort")
  expect(cacheFolder({ XDG_CACHE_HOME: "relative", HOME: "/h" }, "/fallback")).toBe("/h/.cache/cohort")
  expect(cacheFolder({}, "/fallback")).toBe("/fallback/.cache/cohort")
})

test("an empty cache says what is missing and how to install it, and info lists what exists", () => {
  const options = { env: {}, cacheDir: join(dir, "empty-cache"), host }
  expect(findRuntime(options)).toMatchObject({
    status: "absent",
    reason: expect.stringContaining("tensorflow-cpu-2.21.0-linux-x64 does not exist"),
    hint: expect.stringContaining("cohort runtime install"),
  })
  const info = runtimeInfo(options)
  expect(info.available.map((each) => [each.name, each.kind, each.installed])).toEqual([
    ["tensorflow-cpu-2.21.0-linux-x64", "cpu", false],
    ["tensorflow-2.21.0-linux-x64", "gpu", false],
  ])
  expect(info).toMatchObject({ platform: "linux-x64", cacheDir: options.cacheDir, override: undefined })
})

test("a gpu runtime that somebody installed is preferred, unless cpu is asked for", async () => {
  const fake = await fakeRuntime()
  try {
    const gpu = { ...fake.pin, kind: "gpu" as const, package: "fake-gpu" }
    const options = { ...fake, pins: [fake.pin, gpu], signal: AbortSignal.timeout(10_000), pollMs: 10 }
    await installRuntime(options)
    expect(findRuntime(options)).toMatchObject({ runtime: { kind: "cpu" } })
    await installRuntime({ ...options, kind: "gpu" })
    expect(findRuntime(options)).toMatchObject({ runtime: { kind: "gpu" } })
    expect(findRuntime({ ...options, kind: "cpu" })).toMatchObject({ runtime: { kind: "cpu" } })
    expect(runtimeInfo(options).available.every((each) => each.installed)).toBe(true)
  } finally {
    await rm(fake.dir, { recursive: true })
  }
})

test("pins are whole: one per platform and kind, hashes of 64 digits, the opened library first", () => {
  expect(new Set(pins.map((pin) => `${pin.platform} ${pin.kind}`)).size).toBe(pins.length)
  for (const pin of pins) {
    expect(pin.wheel.sha256).toMatch(/^[0-9a-f]{64}$/)
    expect(pin.files.map((file) => file.entry)).toEqual(["tensorflow/libtensorflow_cc.so.2", "tensorflow/libtensorflow_framework.so.2"])
  }
})
