// Where compiled XLA programs are kept between starts. They hold code for one kind of CPU and one build of the library.
import { createHash } from "node:crypto"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type { FoundRuntime } from "./install/find.ts"
import { pruneFolder } from "./prune.ts"

/** Programs of a model are a few to a few dozen MB. */
const maxBytes = 2 ** 30

/**
 * Keeps the programs of all libraries and CPUs together within 1 GiB: past that, those used longest ago go until three quarters are left.
 * @param nowMs time of day
 */
export function pruneXlaCache(cacheDir: string, nowMs: number): void {
  pruneFolder(join(cacheDir, "xla"), { maxBytes, targetBytes: 0.75 * maxBytes, youngMs: 600_000, nowMs })
}

/** `<cache>/xla/<library>-<cpu>`: programs made for another library or CPU lie elsewhere. */
export function xlaCacheFolder(cacheDir: string, runtime: FoundRuntime, cpuInfo: string = readCpuInfo()): string {
  return join(cacheDir, "xla", `${libraryKey(runtime)}-${cpuKey(cpuInfo)}`)
}

/** Version and kind of a pinned library; size and time of one of the user's own, whose version is not known before it is loaded. */
function libraryKey(runtime: FoundRuntime): string {
  if (runtime.kind !== undefined) return `${runtime.version}-${runtime.kind}`
  const { size, mtimeMs } = statSync(runtime.libraryPath)
  return `own-${digest(`${runtime.libraryPath} ${size} ${mtimeMs}`)}`
}

/** Hash of the model and the feature flags of the first core, in any order. */
function cpuKey(cpuInfo: string): string {
  const field = (pattern: RegExp): string => pattern.exec(cpuInfo)?.[1]?.trim() ?? ""
  const flags = field(/^(?:flags|Features)\s*:(.*)$/m).split(/\s+/).toSorted().join(" ")
  const model = field(/^(?:model name|CPU part)\s*:(.*)$/m)
  return digest(`${process.arch} ${model} ${flags}`)
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 12)
}

/** Empty where the system has no such file; then all its CPUs count as one kind. */
function readCpuInfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8")
  } catch {
    return ""
  }
}
