// One file into the cache: goes on where an earlier try stopped, is checked against the hub's hash, and appears complete or not at all.
import { existsSync, readdirSync } from "node:fs"
import { type FileHandle, mkdir, open, rename, rm, stat } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { CohortError } from "@cohort/errors"
import { blobPath } from "./cache.ts"

/** A file of a repository as its listing shows it. */
export interface BlobSource {
  readonly path: string
  readonly bytes: number
  /** Of files that the hub keeps apart from git. */
  readonly sha256: string | undefined
  /** Hash of git: SHA-1 over a header and the content. */
  readonly gitHash: string | undefined
}

export interface BlobAccess {
  readonly signal?: AbortSignal
  /** The content, to be read in parts; null where there is none. */
  readonly open: (signal: AbortSignal) => Promise<Blob | null>
  /** Bytes there so far. */
  readonly onBytes: (bytes: number) => void
}

/** Silence after which a download is given up. */
const stallMs = 60_000

let downloads = 0

/** Partial files that this process writes now. */
const active = new Set<string>()

/**
 * @returns the name of the blob in the cache
 * @throws CohortError `file_invalid` when the content is not what the listing promised, `timeout` after a minute of silence, `disk_full`
 */
export async function fetchBlob(folder: string, file: BlobSource, access: BlobAccess): Promise<string> {
  const hash = file.sha256 ?? file.gitHash
  if (hash === undefined || !/^[0-9a-f]{40,64}$/.test(hash)) throw new CohortError("file_invalid", `${file.path}: the hub lists it without a hash`)
  const target = blobPath(folder, hash)
  if (existsSync(target)) return hash
  await mkdir(dirname(target), { recursive: true })
  const partial = `${target}.${process.pid}-${downloads++}.incomplete`
  active.add(partial)
  try {
    await adopt(target, partial)
    const start = (await sizeOf(partial)) ?? 0
    if (start > file.bytes) await rm(partial)
    await append(partial, start > file.bytes ? 0 : start, file, access)
  } finally {
    active.delete(partial)
  }
  const found = await hashOf(partial, file)
  if (found !== hash) {
    await rm(partial, { force: true })
    throw new CohortError("file_invalid", `${file.path}: the downloaded content has the hash ${found}, the hub lists ${hash}`, { hint: "Try again; a proxy in between may change files." })
  }
  await rename(partial, target)
  return hash
}

/** Takes over what a process that is gone had fetched. Of several that try, the rename lets one win. */
async function adopt(target: string, partial: string): Promise<void> {
  const prefix = `${basename(target)}.`
  for (const name of readdirSync(dirname(target))) {
    const [, pid] = /\.(\d+)-\d+\.incomplete$/.exec(name) ?? []
    const path = join(dirname(target), name)
    if (pid === undefined || !name.startsWith(prefix) || active.has(path) || isAlive(Number(pid))) continue
    try {
      await rename(path, partial)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    }
  }
}

function isAlive(pid: number): boolean {
  // What this process left behind itself is told by `active`.
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Another user's process is alive too.
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(({ size }) => size, () => undefined)
}

async function append(partial: string, start: number, file: BlobSource, { signal, open: openContent, onBytes }: BlobAccess): Promise<void> {
  onBytes(start)
  if (start === file.bytes && start > 0) return
  const stalled = new AbortController()
  const stop = signal === undefined ? stalled.signal : AbortSignal.any([signal, stalled.signal])
  const late = (): void => stalled.abort(new CohortError("timeout", `${file.path}: no byte came for ${stallMs / 1000} s`, { hint: "Try again: it goes on from where it stopped." }))
  let timer = setTimeout(late, stallMs)
  let output: FileHandle | undefined
  try {
    output = await open(partial, "a")
    const content = await openContent(stop)
    if (content === null) throw new CohortError("file_invalid", `${file.path}: the hub lists it and does not have it`)
    let bytes = start
    for await (const chunk of content.slice(start, file.bytes).stream()) {
      stop.throwIfAborted()
      clearTimeout(timer)
      timer = setTimeout(late, stallMs)
      await output.write(chunk)
      bytes += chunk.byteLength
      onBytes(bytes)
    }
    if (bytes < file.bytes) throw new CohortError("file_invalid", `${file.path}: the connection ended after ${bytes} of ${file.bytes} bytes`, { hint: "Try again: it goes on from where it stopped." })
  } catch (error) {
    throw stop.aborted ? stop.reason : error
  } finally {
    clearTimeout(timer)
    await output?.close()
  }
}

async function hashOf(path: string, { sha256 }: BlobSource): Promise<string> {
  const content = Bun.file(path)
  const hasher = new Bun.CryptoHasher(sha256 === undefined ? "sha1" : "sha256")
  if (sha256 === undefined) hasher.update(`blob ${content.size}\0`)
  for await (const chunk of content.stream()) hasher.update(chunk)
  return hasher.digest("hex")
}
