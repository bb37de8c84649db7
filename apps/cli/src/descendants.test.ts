import { expect, test } from "bun:test"
import { descendantsOf, killDescendants, processes } from "./descendants.ts"

test("children come before their parents, strangers are left out, a cycle ends", () => {
  const tree = [
    { pid: 2, parent: 1 },
    { pid: 3, parent: 2 },
    { pid: 4, parent: 3 },
    { pid: 9, parent: 8 },
    { pid: 1, parent: 4 },
  ]
  expect(descendantsOf(1, tree)).toEqual([4, 3, 2])
  expect(descendantsOf(7, tree)).toEqual([])
})

test("ends real grandchildren", async () => {
  const child = Bun.spawn(["sh", "-c", "sleep 60 & echo $!; wait"], { stdout: "pipe" })
  const reader = child.stdout.getReader()
  const grandchild = Number(new TextDecoder().decode((await reader.read()).value))
  expect(descendantsOf(process.pid, processes())).toEqual(expect.arrayContaining([child.pid, grandchild]))
  killDescendants(child.pid)
  // Without its `sleep`, the shell's `wait` returns.
  await child.exited
  expect(processes().some(({ pid }) => pid === grandchild)).toBe(false)
})
