// Model folders in Hugging Face layout: config.json, safetensors (one file or shards), and back.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { type ModelWeights, openModelWeights, writeSafetensors } from "@cohort/safetensors"
import type { HostArray } from "@cohort/tensor"
import { type ModelConfig, parseModelConfig } from "./config.ts"
import { writeJson } from "./json-file.ts"
import { parameterLayout, type ParameterSpec } from "./layout.ts"
import type { Parameters, Policy } from "./policy.ts"

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
  readonly values: (checkpointName: string, shape: readonly number[]) => Float32Array
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
  return { values: (name) => finite(folder, name, weights.f32(name)), close: () => weights.close() }
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
  readonly dtype: "F32"
  readonly shape: readonly number[]
  readonly bytes: Uint8Array
}

/**
 * The tensors of resident parameters in the order of their file, float32.
 * @param dataOf values of the parameter with this index; its own when absent
 */
export function* checkpointTensors(parameters: Pick<Parameters, "specs" | "variables">, dataOf = (index: number): HostArray => parameters.variables[index]!.data()): Generator<TensorBytes> {
  for (const [i, spec] of parameters.specs.entries()) {
    const data = dataOf(i)
    if (!(data instanceof Float32Array)) throw new CohortError("internal", `${spec.name} is kept as bf16 for inference; only float32 parameters are saved`)
    let begin = 0
    for (const part of spec.parts) {
      const size = part.shape.reduce((product, dim) => product * dim, 1)
      const values = data.subarray(begin, begin + size)
      yield { name: part.checkpointName, dtype: "F32", shape: part.shape, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) }
      begin += size
    }
  }
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
