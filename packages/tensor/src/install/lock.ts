// A lock file between processes: holds the owner's name and a heartbeat (its mtime), so that a lock whose owner was killed
// is taken over and a wait can say for whom. Mutual exclusion is best effort across a takeover; what is guarded must stay
// right when two owners overlap for a moment, which the installer gets from private folders and one atomic rename.
import { CohortError } from "@cohort/errors"
import { open, readFile, rm, stat, utimes } from "node:fs/promises"
import type { Host } from "./host.ts"

export interface LockTiming {
  readonly heartbeatMs: number
  /** A lock without a heartbeat for this long is stale when its process is known to be gone. */
  readonly deadMs: number
  /** A lock without a heartbeat for this long is stale whoever holds it. */
  readonly staleMs: number
  /** How long to wait for a living owner. */
  readonly waitMs: number
}

export const lockTiming: LockTiming = { heartbeatMs: 1000, deadMs: 5000, staleMs: 60_000, waitMs: 30 * 60_000 }

export interface LockOwner {
  readonly pid: number
  readonly host: string
  readonly token: string
}

export interface Lock {
  /** Aborted when another process took the lock over, which happens to an owner that was suspended past `staleMs`. */
  readonly lost: AbortSignal
  release(): Promise<void>
}

export interface LockOptions {
  readonly host: Host
  readonly timing?: LockTiming
  readonly signal?: AbortSignal
  /** Told once per owner that is waited for. */
  readonly onWait?: (owner: LockOwner | undefined) => void
}

/**
 * Takes the lock at `path`, waiting for its owner if there is one.
 *
 * @throws CohortError `timeout` after `timing.waitMs` behind a living owner; the signal's reason when aborted.
 * @example
 * const lock = await acquireLock("/cache/a.lock", { host: systemHost() })
 * try { await work(lock.lost) } finally { await lock.release() }
 */
export async function acquireLock(path: string, options: LockOptions): Promise<Lock> {
  const { host, timing = lockTiming, signal } = options
  const startedMs = host.now()
  let seen: { key: string; sinceMs: number } | undefined
  let announced: string | undefined
  for (;;) {
    signal?.throwIfAborted()
    const token = `${host.pid}-${crypto.randomUUID()}`
    if (await createLock(path, { pid: host.pid, host: host.name, token })) return holdLock(path, token, host, timing)
    const held = await readLock(path)
    if (held === undefined) continue
    const key = `${held.owner?.token ?? ""}@${held.beatMs}`
    if (seen?.key !== key) seen = { key, sinceMs: host.now() }
    if (isStale(held, host.now() - seen.sinceMs, host, timing)) {
      if (await takeOver(path, held, host)) continue
    } else if (announced !== (held.owner?.token ?? "")) {
      announced = held.owner?.token ?? ""
      options.onWait?.(held.owner)
    }
    if (host.now() - startedMs > timing.waitMs)
      throw new CohortError("timeout", `${path} is still held by ${describeOwner(held.owner)} after ${Math.round(timing.waitMs / 1000)} s`, {
        hint: "Wait for that process, or end it and try again.",
        details: { path, owner: held.owner },
      })
    await host.sleep(Math.min(250, timing.heartbeatMs), signal)
  }
}

export function describeOwner(owner: LockOwner | undefined): string {
  return owner === undefined ? "another process" : `process ${owner.pid} on ${owner.host}`
}

interface HeldLock {
  readonly owner: LockOwner | undefined
  readonly beatMs: number
}

/** Clocks of two hosts may differ, so a foreign heartbeat is judged only by how long it was seen not to move. */
function isStale(held: HeldLock, unchangedMs: number, host: Host, timing: LockTiming): boolean {
  const local = held.owner?.host === host.name
  const silentMs = local ? Math.max(unchangedMs, host.now() - held.beatMs) : unchangedMs
  if (silentMs > timing.staleMs) return true
  return local && silentMs > timing.deadMs && held.owner !== undefined && !host.isAlive(held.owner.pid)
}

async function createLock(path: string, owner: LockOwner): Promise<boolean> {
  try {
    const file = await open(path, "wx")
    try {
      await file.writeFile(JSON.stringify(owner))
    } finally {
      await file.close()
    }
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
}

async function readLock(path: string): Promise<HeldLock | undefined> {
  try {
    const [text, info] = await Promise.all([readFile(path, "utf8"), stat(path)])
    return { owner: parseOwner(text), beatMs: info.mtimeMs }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
}

/** Undefined for a file that its owner is still writing, or did not finish. */
function parseOwner(text: string): LockOwner | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== "object" || value === null) return undefined
  if (!("pid" in value && "host" in value && "token" in value)) return undefined
  const { pid, host, token } = value
  return typeof pid === "number" && typeof host === "string" && typeof token === "string" ? { pid, host, token } : undefined
}

/** Removes a stale lock. A second lock file lets one waiter do it at a time, and only if the lock is still the stale one. */
async function takeOver(path: string, stale: HeldLock, host: Host): Promise<boolean> {
  const guard = `${path}.takeover`
  try {
    await (await open(guard, "wx")).close()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    // The guard is held for a moment only; one that stays was left by a process that was killed inside.
    const info = await stat(guard).catch(() => undefined)
    if (info !== undefined && info.mtimeMs + 10_000 < host.now()) await rm(guard, { force: true })
    return false
  }
  try {
    const now = await readLock(path)
    if (now === undefined) return true
    if (now.owner?.token !== stale.owner?.token || now.beatMs !== stale.beatMs) return false
    await rm(path, { force: true })
    return true
  } finally {
    await rm(guard, { force: true })
  }
}

function holdLock(path: string, token: string, host: Host, timing: LockTiming): Lock {
  const lost = new AbortController()
  const ours = async () => (await readLock(path))?.owner?.token === token
  const beat = async () => {
    if (!(await ours())) {
      lost.abort(new CohortError("runtime_unavailable", `${path} was taken over by another process`, { hint: "Try again." }))
      return
    }
    const now = new Date(host.now())
    await utimes(path, now, now)
  }
  const timer = setInterval(() => {
    beat().catch((error: unknown) => lost.abort(error))
  }, timing.heartbeatMs)
  return {
    lost: lost.signal,
    release: async () => {
      clearInterval(timer)
      if (await ours()) await rm(path, { force: true })
    },
  }
}
