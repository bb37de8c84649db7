// How new weights reach the inference servers.
import type { InferenceServer } from "@cohort/inference"

/** One tensor of the policy by its checkpoint name. `bytes` is row-major little-endian and the receiver's to keep. */
export interface WeightTensor {
  readonly name: string
  readonly dtype: "F32" | "F16" | "BF16"
  readonly shape: readonly number[]
  readonly bytes: Uint8Array
}

/** Where weights come from: names and shapes fixed for the run, bytes read per push. */
export interface WeightSource {
  readonly names: readonly string[]
  /** Current tensors in `names` order. */
  tensors(): AsyncIterable<WeightTensor> | Iterable<WeightTensor>
  /**
   * Writes all current tensors into one new safetensors file: for a source that need not hand out copies. Resolves to the file's size and CRC-32.
   * Nothing is left at `path` when it fails. Absent where `tensors` is the only way.
   */
  writeFile?(path: string, metadata: Readonly<Record<string, string>>): Promise<{ readonly bytes: number; readonly checksum: string }>
  /** Files that belong beside the weights in a model folder (config.json, tokenizer files), by name. */
  readonly companionFiles: Readonly<Record<string, string | Uint8Array>>
}

export interface TransferReport {
  readonly version: number
  readonly bytes: number
  readonly seconds: number
  /** Time the servers stood still, seconds; the longest of all. */
  readonly pausedSeconds: number
  readonly servers: readonly { readonly name: string; readonly ok: boolean; readonly seconds: number; readonly error?: string }[]
}

export interface WeightTransfer {
  init(source: WeightSource, servers: readonly InferenceServer[]): Promise<void>
  /** Publishes the current weights as `version` and makes every server use them. Servers are resumed whatever happens. */
  push(version: number, signal?: AbortSignal): Promise<TransferReport>
  close(): Promise<void>
}
