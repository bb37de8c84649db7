// Resident memory of the run's processes together, watched for its peak.
import { readFileSync } from "node:fs"

export interface MemoryWatch {
  readonly peakBytes: number
  stop(): void
}

const pageBytes = 4096

/** Resident bytes of a process; 0 once it is gone, or where /proc is not. */
export function residentBytes(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * pageBytes
  } catch {
    // A process that ended between two looks weighs nothing.
    return 0
  }
}

/** Looks every `everyMs` at the sum over `pids()`. */
export function watchMemory(pids: () => readonly number[], everyMs = 500): MemoryWatch {
  let peak = 0
  const look = (): void => {
    peak = Math.max(peak, pids().reduce((sum, pid) => sum + residentBytes(pid), 0))
  }
  look()
  const timer = setInterval(look, everyMs)
  timer.unref()
  return {
    get peakBytes() {
      look()
      return peak
    },
    stop: () => clearInterval(timer),
  }
}
