// Keeps a cache folder within a size: what was used longest ago goes first. Several processes may prune and use the folder at once.
import { readdirSync, statSync, unlinkSync } from "node:fs"
import { join } from "node:path"

export interface PruneOptions {
  /** Nothing happens below. */
  readonly maxBytes: number
  /** What is left after a pruning. */
  readonly targetBytes: number
  /** Files younger than this stay: somebody may just be writing them. */
  readonly youngMs: number
  readonly nowMs: number
}

interface CachedFile {
  readonly path: string
  readonly bytes: number
  readonly usedMs: number
}

/**
 * Removes the files below `folder` that were read or written longest ago, until the rest is small enough. A file that is
 * open in another process stays readable to it; one that another process removed first is no error.
 *
 * @returns bytes removed
 * @example
 * pruneFolder("/cache/xla", { maxBytes: 2 ** 30, targetBytes: 0.75 * 2 ** 30, youngMs: 600_000, nowMs: Date.now() })
 */
export function pruneFolder(folder: string, { maxBytes, targetBytes, youngMs, nowMs }: PruneOptions): number {
  const files = filesBelow(folder)
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  if (total <= maxBytes) return 0
  let removed = 0
  for (const { path, bytes } of files.filter(({ usedMs }) => nowMs - usedMs >= youngMs).toSorted((a, b) => a.usedMs - b.usedMs)) {
    if (total - removed <= targetBytes) break
    if (attempt(() => (unlinkSync(path), true)) === true) removed += bytes
  }
  return removed
}

function filesBelow(folder: string): CachedFile[] {
  const entries = attempt(() => readdirSync(folder, { recursive: true, withFileTypes: true })) ?? []
  return entries.flatMap((entry) => {
    if (!entry.isFile()) return []
    const path = join(entry.parentPath, entry.name)
    const found = attempt(() => statSync(path))
    return found === undefined ? [] : [{ path, bytes: found.size, usedMs: Math.max(found.atimeMs, found.mtimeMs) }]
  })
}

/** Undefined where the file is gone, or is not this user's to touch: the cache works without the pruning. */
function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
