// The filesystem transfer in memory: /dev/shm where it has room for the model, the temporary folder else, and a sentence that says why.
import { freemem, tmpdir, userInfo } from "node:os"
import { join } from "node:path"
import { CohortError, messageOf } from "@cohort/errors"
import { filesystemTransfer, type FileTransferOptions } from "./filesystem.ts"
import type { WeightSource, WeightTransfer } from "./protocol.ts"
import { nodeFiles, type TransferFiles } from "./transfer-files.ts"

export interface SharedMemoryOptions extends FileTransferOptions {
  /** Bytes of one version; measured from the source when absent. */
  readonly expectedBytes?: number
  readonly sharedMemoryDir?: string
  readonly fallbackDir?: string
  /** Memory that is free on this machine, bytes. */
  readonly freeMemoryBytes?: () => number
  /** Name of the folder in either place; one per user when absent. */
  readonly folderName?: string
}

export interface Location {
  readonly dir: string
  readonly why: string
}

export interface SharedMemoryTransfer extends WeightTransfer {
  /** Where weights go, known after init. */
  readonly location: Location | undefined
}

/** Share of the free memory that weights may take. */
const memoryShare = 0.8

/**
 * Transfer on one machine: trainer and servers must see the same /dev/shm (containers often have their own, of 64 MB).
 *
 * @example
 * const transfer = sharedMemoryTransfer({ log: console.error })
 * await transfer.init(source, servers)
 * transfer.location // { dir: "/dev/shm/cohort-weights-me", why: "/dev/shm has 11.8 GB free, 1.1 GB are needed" }
 */
export function sharedMemoryTransfer(options: SharedMemoryOptions = {}): SharedMemoryTransfer {
  let location: Location | undefined
  let transfer: WeightTransfer | undefined
  return {
    get location() {
      return location
    },
    async init(source, servers) {
      if (transfer !== undefined) throw new CohortError("transfer_failed", "init of a transfer that is in use", { hint: "Close it first." })
      location = await chooseLocation(source, options)
      options.log?.(`weights go through ${location.dir}: ${location.why}`)
      const chosen = filesystemTransfer({ ...options, dir: location.dir })
      await chosen.init(source, servers)
      transfer = chosen
    },
    async push(version, signal) {
      if (transfer === undefined) throw new CohortError("transfer_failed", `push of version ${version} before init, or after close`)
      return transfer.push(version, signal)
    },
    async close() {
      await transfer?.close()
      transfer = undefined
    },
  }
}

async function chooseLocation(source: WeightSource, options: SharedMemoryOptions): Promise<Location> {
  const files = options.files ?? nodeFiles
  const shared = options.sharedMemoryDir ?? "/dev/shm"
  const fallback = options.fallbackDir ?? tmpdir()
  const folder = options.folderName ?? `cohort-weights-${userInfo().username}`
  // The kept versions, and the one that is being written.
  const needed = (Math.max(1, options.keep ?? 2) + 1) * (options.expectedBytes ?? (await bytesOf(source)))
  const room = await roomIn(shared, files)
  if (typeof room === "string") return { dir: join(fallback, folder), why: `${shared} cannot be used: ${room}` }
  if (room < needed) return { dir: join(fallback, folder), why: `${shared} has ${gigabytes(room)} free, ${gigabytes(needed)} are needed` }
  const memory = (options.freeMemoryBytes ?? freemem)() * memoryShare
  if (memory < needed) return { dir: join(fallback, folder), why: `${gigabytes(memory)} of memory may be used, ${gigabytes(needed)} are needed` }
  return { dir: join(shared, folder), why: `${shared} has ${gigabytes(room)} free, ${gigabytes(needed)} are needed` }
}

async function bytesOf(source: WeightSource): Promise<number> {
  let bytes = 0
  for await (const tensor of source.tensors()) bytes += tensor.bytes.length
  return bytes
}

async function roomIn(dir: string, files: TransferFiles): Promise<number | string> {
  try {
    const { bavail, bsize } = await files.statfs(dir)
    return bavail * bsize
  } catch (error) {
    return messageOf(error)
  }
}

const gigabytes = (bytes: number) => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`)
