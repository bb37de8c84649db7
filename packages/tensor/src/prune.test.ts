import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, openSync, readdirSync, readSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pruneFolder } from "./prune.ts"

const day = 86_400_000
const nowMs = Date.UTC(2026, 0, 31)

/** Ten files of 100 bytes in two folders, used one day apart; file 9 last. */
function cache(): { readonly path: string; readonly names: () => string[]; [Symbol.dispose](): void } {
  const path = mkdtempSync(join(tmpdir(), "cohort-prune-"))
  for (let i = 0; i < 10; i++) {
    const folder = join(path, `library-${i % 2}`)
    mkdirSync(folder, { recursive: true })
    const used = (nowMs - (10 - i) * day) / 1000
    writeFileSync(join(folder, `p${i}`), new Uint8Array(100))
    utimesSync(join(folder, `p${i}`), used, used)
  }
  return { path, names: () => readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) => name.includes("p")).map((name) => name.split("/").at(-1)!).toSorted(), [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}
const limits = { maxBytes: 900, targetBytes: 600, youngMs: day / 2, nowMs }

test("past its size, a cache loses what was used longest ago, in all its folders", () => {
  using full = cache()
  expect(pruneFolder(full.path, { ...limits, maxBytes: 1000 })).toBe(0)
  expect(full.names()).toHaveLength(10)
  expect(pruneFolder(full.path, limits)).toBe(400)
  expect(full.names()).toEqual(["p4", "p5", "p6", "p7", "p8", "p9"])
  expect(pruneFolder(full.path, limits)).toBe(0)
})

test("a file that was read lately counts as used, and young files stay whatever the size", () => {
  using full = cache()
  utimesSync(join(full.path, "library-0/p0"), nowMs / 1000, (nowMs - 10 * day) / 1000)
  pruneFolder(full.path, limits)
  expect(full.names()).toEqual(["p0", "p5", "p6", "p7", "p8", "p9"])
  expect(pruneFolder(full.path, { ...limits, maxBytes: 0, targetBytes: 0, youngMs: 4.5 * day })).toBe(100)
  expect(full.names()).toEqual(["p0", "p6", "p7", "p8", "p9"])
})

test("no folder is nothing to do; what another process has open stays readable to it", () => {
  expect(pruneFolder("/nowhere/at/all", limits)).toBe(0)
  using full = cache()
  const open = openSync(join(full.path, "library-0/p0"), "r")
  pruneFolder(full.path, limits)
  expect(readSync(open, new Uint8Array(100))).toBe(100)
})

test("two processes that prune at once remove what one would", async () => {
  using full = cache()
  const source = `import { pruneFolder } from ${JSON.stringify(join(import.meta.dir, "prune.ts"))}\nconsole.log(pruneFolder(${JSON.stringify(full.path)}, ${JSON.stringify(limits)}))`
  const both = [0, 1].map(() => Bun.spawn([process.execPath, "-e", source], { stdout: "pipe", stderr: "inherit" }))
  const removed = await Promise.all(both.map(async (child) => (await child.exited, Number(await new Response(child.stdout).text()))))
  expect(both.map(({ exitCode }) => exitCode)).toEqual([0, 0])
  expect(removed[0]! + removed[1]!).toBeGreaterThanOrEqual(400)
  const left = full.names()
  expect(left.length).toBeLessThanOrEqual(6)
  expect(left).toEqual(["p4", "p5", "p6", "p7", "p8", "p9"].slice(-left.length))
})
