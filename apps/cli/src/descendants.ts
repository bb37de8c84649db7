// The child processes of a process, and theirs: what must go with it when it ends at once.
import { readdirSync, readFileSync } from "node:fs"

/** A process and its parent. */
export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
}

/**
 * All processes below `pid`, the deepest first.
 *
 * @example
 * descendantsOf(1, [{ pid: 2, parent: 1 }, { pid: 3, parent: 2 }]) // [3, 2]
 */
export function descendantsOf(pid: number, processes: readonly ProcessEntry[]): number[] {
  const children = Map.groupBy(processes, ({ parent }) => parent)
  const found: number[] = []
  const seen = new Set([pid])
  const queue = [pid]
  for (let parent = queue.shift(); parent !== undefined; parent = queue.shift())
    for (const child of children.get(parent) ?? []) {
      if (seen.has(child.pid)) continue
      seen.add(child.pid)
      found.push(child.pid)
      queue.push(child.pid)
    }
  return found.toReversed()
}

/** Ends everything below `pid` without asking. */
export function killDescendants(pid: number): void {
  for (const child of descendantsOf(pid, processes())) {
    try {
      process.kill(child, "SIGKILL")
    } catch (error) {
      // It ended by itself meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
    }
  }
}

/** All processes of the machine: from /proc on Linux, from `ps` elsewhere. */
export function processes(): ProcessEntry[] {
  if (process.platform === "linux") return readdirSync("/proc").flatMap(entryOf)
  const { stdout } = Bun.spawnSync(["ps", "-A", "-o", "pid=,ppid="])
  return stdout.toString().split("\n").flatMap((line) => {
    const [pid, parent] = line.trim().split(/\s+/).map(Number)
    return pid && parent ? [{ pid, parent }] : []
  })
}

function entryOf(name: string): ProcessEntry[] {
  if (!/^\d+$/.test(name)) return []
  try {
    // "pid (name) state ppid": the name may hold spaces and parentheses.
    const stat = readFileSync(`/proc/${name}/stat`, "utf8")
    const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])
    return Number.isInteger(parent) ? [{ pid: Number(name), parent }] : []
  } catch {
    // Gone between the listing and the reading.
    return []
  }
}
