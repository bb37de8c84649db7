// One folder per run, its owner written into its name, so that the next run can tell what a dead one left behind and remove it.
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import type { TransferFiles } from "./transfer-files.ts"

/** Who owns a run folder. */
export interface Owner {
  readonly host: string
  readonly pid: number
  /** Start time of the process in the kernel's ticks, so that a reused pid is another owner; "0" where the system does not tell. */
  readonly started: string
}

/** How a run folder's owner is told and looked up. */
export interface Owners {
  readonly self: Owner
  isAlive(owner: Owner): boolean
}

/** This process, and the processes of this machine. */
export function processOwners(): Owners {
  const self = { host: hostname().replaceAll(/[^A-Za-z0-9_-]/g, "_"), pid: process.pid, started: startOf(process.pid) ?? "0" }
  return {
    self,
    isAlive(owner) {
      // Another machine's processes cannot be seen from here: leave its folders alone.
      if (owner.host !== self.host) return true
      if (!exists(owner.pid)) return false
      const started = startOf(owner.pid)
      return owner.started === "0" || started === undefined || started === owner.started
    },
  }
}

const runFolder = /^run\.([A-Za-z0-9_-]+)\.(\d+)\.(\d+)\.[0-9a-f]+$/

/** A new name for a run folder of this owner. */
export function runFolderName(owner: Owner, unique: string): string {
  return `run.${owner.host}.${owner.pid}.${owner.started}.${unique}`
}

/**
 * Removes the run folders in `dir` whose process is gone.
 * @returns names of what was removed
 */
export async function sweepDeadRuns(dir: string, files: TransferFiles, owners: Owners): Promise<string[]> {
  const dead = (await files.readdir(dir)).filter((name) => {
    const [, host, pid, started] = runFolder.exec(name) ?? []
    return host !== undefined && pid !== undefined && started !== undefined && !owners.isAlive({ host, pid: Number(pid), started })
  })
  await Promise.all(dead.map((name) => files.rm(join(dir, name), { recursive: true, force: true })))
  return dead
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it runs, as another user.
    return (error as { code?: unknown }).code === "EPERM"
  }
}

/** Field 22 of /proc/PID/stat; the command in field 2 may hold spaces, so counting starts after its last bracket. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
  } catch (error) {
    const code = (error as { code?: unknown }).code
    if (code === "ENOENT" || code === "EACCES" || code === "ESRCH") return undefined
    throw error
  }
}
