// Model folders in Hugging Face layout: config.json, safetensors (one file or shards), and back.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { createSafetensors, fromF32, halfWords, type ModelWeights, openModelWeights, type WrittenFile, writeSafetensors } from "@cohort/safetensors"
import { type ModelConfig, parseModelConfig } from "./config.ts"
import { writeJson } from "./json-file.ts"
import { parameterLayout, type ParameterSpec } from "./layout.ts"
import type { Parameters, Policy, ValueSource, WordSource } from "./policy.ts"

/** Reads `config.json` of a folder. @throws CohortError `model_invalid` */
export function readModelConfig(folder: string): ModelConfig {
  const path = join(folder, "config.json")
  if (!existsSync(path)) throw new CohortError("model_invalid", `no model at ${folder}: config.json is missing`, { hint: "Give the folder of a Hugging Face checkpoint." })
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, "utf8"))
  } catch (cause) {
    throw toCohortError(cause, "model_invalid", path)
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new CohortError("model_invalid", `${path} holds ${JSON.stringify(json).slice(0, 40)}; an object is needed`)
  return parseModelConfig(json as Record<string, unknown>, path)
}

/** float32 tensors of a folder; `close` when all are read. */
export interface FolderValues {
  /** @throws CohortError `model_invalid` naming the tensor when a value is no finite number */
  readonly values: ValueSource
  /** The same for what the file has as bf16; undefined for other tensors. */
  readonly words: WordSource
  close(): void
}

const floats: readonly string[] = ["F32", "BF16", "F16", "F64"]
const shown = 8

/**
 * Opens the weights of a folder and checks them against the config: every tensor there, in its shape, made of floats.
 * A head beside tied embeddings is not used; `folderWarnings` says when it differs from them.
 * @throws CohortError `model_invalid` naming all tensors that are missing or have another shape or type
 * @example
 * const config = readModelConfig("models/tiny")
 * const weights = openFolderValues("models/tiny", config)
 * const policy = createPolicy(runtime, config, weights.values)
 * weights.close()
 */
export function openFolderValues(folder: string, config: ModelConfig): FolderValues {
  const weights = openModelWeights(folder)
  requireTensors(folder, weights, parameterLayout(config))
  return {
    values: (name) => finite(folder, name, weights.f32(name)),
    words(name) {
      if (weights.info(name).dtype !== "BF16") return undefined
      const words = halfWords(weights.bytes(name))
      // The slower check tells which one it is.
      if (!finiteWords(words)) finite(folder, name, weights.f32(name))
      return words
    },
    close: () => weights.close(),
  }
}

/** Closes the file and throws when a tensor of the layout is not in it, in its shape, made of floats. */
export function requireTensors(folder: string, weights: Pick<ModelWeights, "has" | "info" | "close">, specs: readonly ParameterSpec[]): void {
  const problems: string[] = []
  for (const spec of specs)
    for (const { checkpointName, shape } of spec.parts) {
      if (!weights.has(checkpointName)) {
        problems.push(`${checkpointName} is missing${checkpointName === headName ? " and tie_word_embeddings is false" : ""}`)
        continue
      }
      const found = weights.info(checkpointName)
      if (found.shape.join() !== shape.join()) problems.push(`${checkpointName} is [${found.shape.join(", ")}], config.json asks for [${shape.join(", ")}]`)
      if (!floats.includes(found.dtype)) problems.push(`${checkpointName} holds ${found.dtype}, only ${floats.join(", ")} are read`)
    }
  if (problems.length > 0) {
    weights.close()
    const more = problems.length > shown ? `; and ${problems.length - shown} more` : ""
    throw new CohortError("model_invalid", `${folder}: ${problems.slice(0, shown).join("; ")}${more}`, { hint: "config.json and the weights belong to different models, or the download is incomplete.", details: { problems } })
  }
}

const embeddingName = "model.embed_tokens.weight"
const headName = "lm_head.weight"

/**
 * What a user should hear of a model folder although it loads; sentences. Reads the head and the embeddings where both are there, nothing else.
 * @throws CohortError `model_invalid`, `file_invalid`
 * @example
 * for (const warning of folderWarnings("models/tiny")) console.warn(warning)
 */
export function folderWarnings(folder: string): readonly string[] {
  const config = readModelConfig(folder)
  using weights = openModelWeights(folder)
  return headWarnings(weights, config).map((warning) => `${folder}: ${warning}`)
}

function headWarnings(weights: ModelWeights, config: ModelConfig): string[] {
  if (!config.tiedEmbeddings || !weights.has(headName) || !weights.has(embeddingName)) return []
  const same = weights.info(headName).dtype === weights.info(embeddingName).dtype && Buffer.compare(weights.bytes(headName), weights.bytes(embeddingName)) === 0
  return same ? [] : [`tie_word_embeddings is true, but ${headName} differs from ${embeddingName}: the embeddings are used for both`]
}

/** Whether bf16 words are all numbers: those with an exponent of ones are none. */
export function finiteWords(words: Uint16Array): boolean {
  if (words.length === 0) return true
  const start = words.byteOffset % 4 === 0 ? 0 : 1
  const pairs = new Uint32Array(words.buffer, words.byteOffset + 2 * start, (words.length - start) >> 1)
  let seen = 0
  // Two words at a time; one added to a full exponent carries into the bit above it. A server's load waits for this pass over all weights.
  for (let i = 0; i < pairs.length; i++) seen |= ((pairs[i]! & 0x7f807f80) >>> 1) + 0x00400040
  if ((seen & 0x40004000) !== 0) return false
  const isNumber = (word: number | undefined): boolean => word === undefined || (word & 0x7f80) !== 0x7f80
  return isNumber(words[0]) && isNumber(words.at(-1))
}

/** One NaN in a file makes every loss NaN much later; here it still has a name. */
export function finite(folder: string, name: string, values: Float32Array): Float32Array {
  for (let at = 0; at < values.length; at++)
    if (!Number.isFinite(values[at]))
      throw new CohortError("model_invalid", `${folder}: ${name} holds ${values[at]} at element ${at}`, { hint: "The checkpoint is damaged or its training diverged; use an earlier one.", details: { tensor: name, element: at } })
  return values
}

/** A tensor on its way to a file or a server. */
export interface TensorBytes {
  readonly name: string
  readonly dtype: "F32" | "BF16"
  readonly shape: readonly number[]
  readonly bytes: Uint8Array
}

export interface CheckpointOptions {
  /** float32 values of the parameter with this index; its own when absent. */
  readonly dataOf?: (index: number) => Float32Array | undefined
  /** What matrices are rounded to; norms and biases stay float32. */
  readonly matrices?: "f32" | "bf16"
}

/**
 * The tensors of resident parameters in the order of their file. Bytes are new memory that threads share, so that a message does not copy them.
 * @throws CohortError `tensor_failed` for parameters that are kept as bf16 for inference
 */
export function* checkpointTensors({ specs, variables }: Pick<Parameters, "specs" | "variables">, options: CheckpointOptions = {}): Generator<TensorBytes> {
  for (const [i, spec] of specs.entries()) {
    const half = options.matrices === "bf16" && spec.shape.length === 2
    const width = half ? 2 : 4
    const bytes = new Uint8Array(new SharedArrayBuffer(sizeOf(spec.shape) * width))
    const values = options.dataOf?.(i)
    if (values === undefined) variables[i]!.withBytes(half ? "bf16" : "f32", (own) => bytes.set(own))
    else bytes.set(fromF32(values, half ? "BF16" : "F32"))
    let begin = 0
    for (const part of spec.parts) {
      const size = sizeOf(part.shape) * width
      yield { name: part.checkpointName, dtype: half ? "BF16" : "F32", shape: part.shape, bytes: bytes.subarray(begin, begin + size) }
      begin += size
    }
  }
}

/** Options of {@link writeCheckpointFile}. */
export interface CheckpointFileOptions extends Pick<CheckpointOptions, "matrices"> {
  readonly metadata: Readonly<Record<string, string>>
}

/**
 * Writes the tensors of resident parameters into a new safetensors file, straight from the runtime's memory: float32 ones first, else in the order of
 * their layout. Nothing is left at `path` when it fails.
 *
 * @returns size and CRC-32 of the file
 * @throws CohortError `disk_full`, `file_invalid`, `tensor_failed` for parameters that are kept as bf16 for inference
 */
export function writeCheckpointFile(path: string, { specs, variables }: Pick<Parameters, "specs" | "variables">, { matrices, metadata }: CheckpointFileOptions): WrittenFile {
  const isHalf = (spec: ParameterSpec): boolean => matrices === "bf16" && spec.shape.length === 2
  // Wide types first: each tensor then begins at a multiple of its elements' size.
  const order = [...specs.keys()].toSorted((a, b) => Number(isHalf(specs[a]!)) - Number(isHalf(specs[b]!)))
  const infos = order.flatMap((i) => specs[i]!.parts.map((part) => ({ name: part.checkpointName, dtype: isHalf(specs[i]!) ? "BF16" as const : "F32" as const, shape: part.shape })))
  const file = createSafetensors(path, infos, metadata)
  try {
    // The parts of a parameter lie in it one after the other, as in the file.
    for (const i of order) variables[i]!.withBytes(isHalf(specs[i]!) ? "bf16" : "f32", file.append)
    return file.finish()
  } catch (cause) {
    file.discard()
    throw toCohortError(cause, "file_invalid", `writing ${path}`)
  }
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1)
}

/**
 * Writes `model.safetensors` (float32) and `config.json`; tokenizer files are the caller's to copy.
 * Each file replaces an old one only when it is complete; the config comes last.
 * @param tensors of the model; the policy's own when absent
 * @throws CohortError `disk_full`, `file_invalid`
 */
export async function saveModelFolder(folder: string, policy: Policy, tensors: Iterable<TensorBytes> = checkpointTensors(policy)): Promise<void> {
  await writeSafetensors(join(folder, "model.safetensors"), tensors, { metadata: { format: "pt" } })
  // transformers 4 reads torch_dtype, 5 reads dtype.
  await writeJson(join(folder, "config.json"), { ...policy.config.source, torch_dtype: "float32", dtype: "float32" })
}
