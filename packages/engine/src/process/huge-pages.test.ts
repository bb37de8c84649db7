import { expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { withHugePages } from "./huge-pages.ts"

test("what the user chose stays, and other tunables go beside it", () => {
  expect(withHugePages({ A: "1" })).toEqual({ A: "1", GLIBC_TUNABLES: "glibc.malloc.hugetlb=1" })
  expect(withHugePages({ GLIBC_TUNABLES: "glibc.malloc.arena_max=2" })).toEqual({ GLIBC_TUNABLES: "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1" })
  expect(withHugePages({ GLIBC_TUNABLES: "glibc.malloc.hugetlb=0" })).toEqual({ GLIBC_TUNABLES: "glibc.malloc.hugetlb=0" })
})

const setting = "/sys/kernel/mm/transparent_hugepage/enabled"
const onRequest = existsSync(setting) && readFileSync(setting, "utf8").includes("[madvise]")
/** `gnu_get_libc_version` from 2.35 on, when the tunable came. */
const program = `
  const { dlopen } = require("bun:ffi")
  const { symbols: c } = dlopen("libc.so.6", { malloc: { args: ["u64"], returns: "ptr" }, memset: { args: ["ptr", "i32", "u64"], returns: "ptr" }, gnu_get_libc_version: { args: [], returns: "cstring" } })
  c.memset(c.malloc(64 * 2 ** 20), 1, 64 * 2 ** 20)
  const kibibytes = Number(/AnonHugePages:\\s+(\\d+)/.exec(require("fs").readFileSync("/proc/self/smaps_rollup", "utf8"))[1])
  console.log(JSON.stringify({ kibibytes, knows: Number(String(c.gnu_get_libc_version()).split(".")[1]) >= 35 }))
`

test.skipIf(!onRequest || !existsSync("/proc/self/smaps_rollup"))("a child's large blocks lie on huge pages", () => {
  const run = (env: Readonly<Record<string, string | undefined>>): { kibibytes: number; knows: boolean } =>
    JSON.parse(Bun.spawnSync([process.execPath, "-e", program], { env }).stdout.toString()) as { kibibytes: number; knows: boolean }
  const { GLIBC_TUNABLES: _, ...plain } = process.env
  const [without, withPages] = [run(plain), run(withHugePages(plain))]
  if (withPages.knows) expect(withPages.kibibytes - without.kibibytes).toBeGreaterThan(32 * 1024)
})
