// Writes one policy version as a model folder in Hugging Face layout: complete or not there at all.
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { listed } from "@cohort/inference"
import { createChecksum, writeSafetensors, type TensorToWrite } from "@cohort/safetensors"
import type { WeightSource } from "./protocol.ts"
import type { TransferFiles } from "./transfer-files.ts"

/** What `weights.json` in a version folder tells. */
export interface WeightsManifest {
  readonly version: number
  /** Of all weight files together. */
  readonly bytes: number
  /** CRC-32 of each weight file, hex. */
  readonly files: readonly { readonly name: string; readonly bytes: number; readonly checksum: string }[]
}

export interface WriteVersionOptions {
  /** Final path; it must not exist. The folder is written as `<path>.tmp` and renamed. */
  readonly path: string
  readonly version: number
  readonly source: WeightSource
  /** Name of the weight file where there is one; `model.safetensors` when absent. */
  readonly fileName?: string
  /** Tensors are held in memory up to this size before a file is written; more makes several files and an index. When absent a source that can writes one file itself. */
  readonly shardBytes?: number
  readonly files: TransferFiles
  readonly signal?: AbortSignal | undefined
}

/**
 * Writes the current weights of a source.
 *
 * @throws CohortError `transfer_failed` when the source's tensors are not exactly its names, `disk_full`, `aborted`,
 * `file_invalid`; nothing is left behind then
 */
export async function writeVersion(options: WriteVersionOptions): Promise<WeightsManifest> {
  const { path, files, version, source, signal } = options
  const partial = `${path}.tmp`
  try {
    await files.mkdir(partial, { recursive: true })
    const shards = await writeShards(partial, options)
    const named = await nameShards(partial, shards, files, options.fileName ?? "model.safetensors")
    for (const [name, data] of Object.entries(source.companionFiles)) await files.writeFile(join(partial, name), data)
    const manifest: WeightsManifest = { version, bytes: named.reduce((total, file) => total + file.bytes, 0), files: named }
    await files.writeFile(join(partial, "weights.json"), `${JSON.stringify(manifest, undefined, 2)}\n`)
    signal?.throwIfAborted()
    await files.rename(partial, path)
    return manifest
  } catch (error) {
    await files.rm(partial, { recursive: true, force: true })
    if (signal?.aborted === true) throw new CohortError("aborted", `writing version ${version}: aborted`, { cause: signal.reason })
    throw toCohortError(error, "transfer_failed", `writing version ${version} to ${path}`)
  }
}

const usualShardBytes = 2 ** 29

interface Shard {
  readonly file: string
  readonly bytes: number
  readonly checksum: string
  readonly names: readonly string[]
}

async function writeShards(folder: string, options: WriteVersionOptions): Promise<Shard[]> {
  const { source, version, shardBytes = usualShardBytes, signal } = options
  const metadata = { format: "pt", policy_version: String(version) }
  if (source.writeFile !== undefined && options.shardBytes === undefined) {
    const file = "shard-0.safetensors"
    return [{ file, ...(await source.writeFile(join(folder, file), metadata)), names: source.names }]
  }
  const names = nameChecker(source.names)
  const shards: Shard[] = []
  let held: TensorToWrite[] = []
  let heldBytes = 0
  const flush = async () => {
    const file = `shard-${shards.length}.safetensors`
    const checksum = createChecksum()
    const bytes = await writeSafetensors(join(folder, file), held, {
      metadata,
      // A version lives as long as its run.
      durable: false,
      onBytes: checksum.update,
      ...(signal === undefined ? {} : { signal }),
    })
    shards.push({ file, bytes, checksum: checksum.hex(), names: held.map((tensor) => tensor.name) })
    held = []
    heldBytes = 0
  }
  for await (const tensor of source.tensors()) {
    signal?.throwIfAborted()
    names.see(tensor.name)
    held.push(tensor)
    heldBytes += tensor.bytes.length
    if (heldBytes >= shardBytes) await flush()
  }
  names.finish()
  if (held.length > 0) await flush()
  return shards
}

/** How many files there are is known at the end only, and their names tell it. */
async function nameShards(folder: string, shards: readonly Shard[], files: TransferFiles, single: string): Promise<WeightsManifest["files"]> {
  const pad = (value: number) => String(value).padStart(5, "0")
  const nameOf = (index: number) => (shards.length === 1 ? single : `model-${pad(index + 1)}-of-${pad(shards.length)}.safetensors`)
  for (const [index, shard] of shards.entries()) await files.rename(join(folder, shard.file), join(folder, nameOf(index)))
  if (shards.length > 1) {
    const weightMap = Object.fromEntries(shards.flatMap((shard, index) => shard.names.map((name) => [name, nameOf(index)])))
    const totalSize = shards.reduce((total, shard) => total + shard.bytes, 0)
    await files.writeFile(join(folder, "model.safetensors.index.json"), `${JSON.stringify({ metadata: { total_size: totalSize }, weight_map: weightMap }, undefined, 2)}\n`)
  }
  return shards.map((shard, index) => ({ name: nameOf(index), bytes: shard.bytes, checksum: shard.checksum }))
}

/** A server warns of a missing tensor at most in its log and then mixes old and new weights: completeness is the sender's to check. */
function nameChecker(wanted: readonly string[]) {
  const missing = new Set(wanted)
  const unexpected: string[] = []
  return {
    see(name: string) {
      if (!missing.delete(name)) unexpected.push(name)
    },
    finish() {
      if (missing.size === 0 && unexpected.length === 0) return
      const parts = [
        ...(missing.size > 0 ? [`${missing.size} missing: ${listed([...missing])}`] : []),
        ...(unexpected.length > 0 ? [`${unexpected.length} unexpected or given twice: ${listed(unexpected)}`] : []),
      ]
      throw new CohortError("transfer_failed", `the weight source gave other tensors than its names tell (${parts.join("; ")})`, {
        hint: "A source's tensors() must give every name of its names once.",
        details: { missing: missing.size, unexpected: unexpected.length },
      })
    },
  }
}
