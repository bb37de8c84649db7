import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ensureWorkspace } from "./workspace.ts"

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "cohort-workspace-"))
  await writeFile(join(root, "bun.lock"), "one")
})
afterEach(() => rm(root, { recursive: true }))

function host(exitCode = 0) {
  const calls: (readonly string[])[] = []
  const lines: string[] = []
  return {
    calls,
    lines,
    install: (folder: string, args: readonly string[]) => {
      expect(folder).toBe(root)
      calls.push(args)
      return Promise.resolve({ exitCode, output: "error: lockfile had changes, but lockfile is frozen\n" })
    },
    say: (line: string) => void lines.push(line),
  }
}

test("installs once, and again when the lock file changes", async () => {
  const first = host()
  expect(await ensureWorkspace(root, first)).toBe(true)
  expect(first.calls).toEqual([["install", "--frozen-lockfile"]])
  expect(first.lines).toHaveLength(1)
  const second = host()
  expect(await ensureWorkspace(root, second)).toBe(false)
  expect(second.calls).toEqual([])
  await writeFile(join(root, "bun.lock"), "two")
  expect(await ensureWorkspace(root, second)).toBe(true)
  expect(second.lines[0]).toContain("up to date")
})

test("a failed install is told with its output, and tried again next time", async () => {
  await expect(ensureWorkspace(root, host(1))).rejects.toThrow("lockfile is frozen")
  const next = host()
  expect(await ensureWorkspace(root, next)).toBe(true)
  expect(next.calls).toHaveLength(1)
})

test("imports nothing that a fresh clone lacks", async () => {
  for (const file of ["workspace.ts", "with-workspace.ts", "test.ts"]) {
    const { imports } = new Bun.Transpiler({ loader: "ts" }).scan(await readFile(join(import.meta.dir, file), "utf8"))
    for (const { path } of imports) expect(path).toMatch(/^(node:|bun:|\.\/[\w./-]+\.ts$)/)
  }
})
