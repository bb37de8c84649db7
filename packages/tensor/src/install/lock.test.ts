import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdtemp, readFile, rm, stat, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemHost } from "./host.ts"
import { acquireLock, type LockOwner } from "./lock.ts"

const timing = { heartbeatMs: 20, deadMs: 100, staleMs: 300, waitMs: 5000 }
const host = systemHost()
let dir = ""
let path = ""

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-lock-"))
  path = join(dir, "x.lock")
})
afterEach(() => rm(dir, { recursive: true }))

/** The id of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = Bun.spawn([process.execPath, "--version"], { stdout: "ignore" })
  await child.exited
  return child.pid
}

async function leaveLock(owner: LockOwner, ageMs: number): Promise<void> {
  await writeFile(path, JSON.stringify(owner))
  const when = new Date(Date.now() - ageMs)
  await utimes(path, when, when)
}

describe("lock", () => {
  test("lets one owner in at a time and tells the others whom they wait for", async () => {
    let inside = 0
    let most = 0
    const waits: (LockOwner | undefined)[] = []
    const work = async () => {
      const lock = await acquireLock(path, { host, timing, onWait: (owner) => waits.push(owner) })
      most = Math.max(most, ++inside)
      await Bun.sleep(30)
      inside--
      await lock.release()
    }
    await Promise.all([work(), work(), work(), work()])
    expect(most).toBe(1)
    expect(waits.length).toBeGreaterThanOrEqual(3)
    expect(waits.some((owner) => owner?.pid === process.pid && owner.host === host.name)).toBe(true)
    expect(await Bun.file(path).exists()).toBe(false)
  })

  test("keeps its heartbeat, so that a long owner is not taken for a dead one", async () => {
    const lock = await acquireLock(path, { host, timing })
    const first = (await stat(path)).mtimeMs
    const second = acquireLock(path, { host, timing: { ...timing, waitMs: 600 } })
    await expect(second).rejects.toMatchObject({ code: "timeout", message: expect.stringContaining(`process ${process.pid}`) })
    expect((await stat(path)).mtimeMs).toBeGreaterThan(first)
    expect(lock.lost.aborted).toBe(false)
    await lock.release()
  })

  test("takes over at once what a killed process of this host left long ago", async () => {
    await leaveLock({ pid: await deadPid(), host: host.name, token: "old" }, 10_000)
    const started = performance.now()
    const lock = await acquireLock(path, { host, timing: { ...timing, staleMs: 60_000 } })
    expect(performance.now() - started).toBeLessThan(200)
    await lock.release()
  })

  test("takes over from a foreign host only after watching its heartbeat stand still", async () => {
    await leaveLock({ pid: 1, host: "elsewhere", token: "old" }, 1_000_000)
    const started = performance.now()
    const lock = await acquireLock(path, { host, timing })
    expect(performance.now() - started).toBeGreaterThanOrEqual(timing.staleMs)
    await lock.release()
  })

  test("takes over a lock that its owner never finished writing", async () => {
    await writeFile(path, "")
    const lock = await acquireLock(path, { host, timing })
    expect(JSON.parse(await readFile(path, "utf8"))).toMatchObject({ pid: process.pid })
    await lock.release()
  })

  test("one of many waiters gets a stale lock, the rest wait for it", async () => {
    await leaveLock({ pid: await deadPid(), host: host.name, token: "old" }, 10_000)
    let inside = 0
    let most = 0
    const work = async () => {
      const lock = await acquireLock(path, { host, timing })
      most = Math.max(most, ++inside)
      await Bun.sleep(20)
      inside--
      await lock.release()
    }
    await Promise.all(Array.from({ length: 6 }, work))
    expect(most).toBe(1)
  })

  test("an owner that lost its lock hears of it and leaves the new one alone", async () => {
    const lock = await acquireLock(path, { host, timing })
    await leaveLock({ pid: 1, host: "elsewhere", token: "new" }, 0)
    await Bun.sleep(4 * timing.heartbeatMs)
    expect(lock.lost.aborted).toBe(true)
    await lock.release()
    expect(JSON.parse(await readFile(path, "utf8"))).toMatchObject({ token: "new" })
  })

  test("stops waiting at an abort", async () => {
    const lock = await acquireLock(path, { host, timing })
    const waiting = acquireLock(path, { host, timing, signal: AbortSignal.timeout(50) })
    await expect(waiting).rejects.toThrow()
    await lock.release()
  })
})
