// What the installer asks of the machine: platform, clock, disk space, process id. Passed in, so that tests choose them.
import { existsSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { homedir, hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"

export type Environment = Readonly<Record<string, string | undefined>>

export interface Host {
  /** `${process.platform}-${process.arch}`, with `-musl` where the C library is musl. */
  readonly platform: string
  /** Version of glibc, such as `2.36`; undefined where there is none. */
  readonly glibc: string | undefined
  readonly name: string
  readonly pid: number
  readonly home: string
  /** Milliseconds since 1970. */
  now(): number
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** Bytes that an unprivileged user may still write to the file system that holds `dir`. */
  freeBytes(dir: string): Promise<number>
  /** Whether a process of this host lives. */
  isAlive(pid: number): boolean
}

/** The machine this process runs on. */
export function systemHost(): Host {
  const glibc = glibcVersion()
  const musl = glibc === undefined && ["x86_64", "aarch64"].some((arch) => existsSync(`/lib/ld-musl-${arch}.so.1`))
  return {
    platform: `${process.platform}-${process.arch}${musl ? "-musl" : ""}`,
    glibc,
    name: hostname(),
    pid: process.pid,
    home: homedir(),
    now: () => Date.now(),
    sleep: async (ms, signal) => {
      await sleep(ms, undefined, signal === undefined ? {} : { signal })
    },
    freeBytes: async (dir) => {
      const { bavail, bsize } = await statfs(dir)
      return bavail * bsize
    },
    isAlive,
  }
}

function glibcVersion(): string | undefined {
  const report: unknown = process.report?.getReport?.()
  const header = typeof report === "object" && report !== null && "header" in report ? report.header : undefined
  if (typeof header !== "object" || header === null || !("glibcVersionRuntime" in header)) return undefined
  return typeof header.glibcVersionRuntime === "string" ? header.glibcVersionRuntime : undefined
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it lives and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code !== "ESRCH"
  }
}
