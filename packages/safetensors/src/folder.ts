// The weights of a Hugging Face model folder: one `model.safetensors`, or shards named by `model.safetensors.index.json`.
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { openSafetensors, type SafetensorsFile, type TensorReader } from "./file.ts"

const singleName = "model.safetensors"
const indexName = "model.safetensors.index.json"

export interface ModelWeights extends TensorReader, Disposable {
  readonly folder: string
  /** File names, sorted. */
  readonly files: readonly string[]
  /** Bytes of all tensors. */
  readonly totalBytes: number
}

/**
 * Opens the weights of a model folder. `model.safetensors` wins over an index, as in transformers. The index and its
 * shards are compared both ways: every listed tensor is in its shard, every tensor of a shard is listed, none in two shards.
 *
 * @throws CohortError `model_invalid` for a folder without weights or an index that does not fit its shards, `file_invalid`
 * for a damaged shard
 * @example
 * using weights = openModelWeights("models/tiny")
 * for (const name of weights.names) console.log(name, weights.info(name).shape)
 */
export function openModelWeights(folder: string): ModelWeights {
  if (existsSync(join(folder, singleName))) return combine(folder, [openSafetensors(join(folder, singleName))])
  if (!existsSync(join(folder, indexName))) throw noWeights(folder)
  const shardByTensor = readIndex(folder)
  const shardNames = [...new Set(shardByTensor.values())].toSorted()
  const missing = shardNames.filter((name) => !existsSync(join(folder, name)))
  if (missing.length > 0) {
    fail(folder, `${indexName} names ${missing.join(", ")}, not in the folder`, "Fetch the missing files, or the whole model, again.")
  }
  const shards = shardNames.map((name) => openSafetensors(join(folder, name)))
  compare(folder, shardByTensor, shardNames, shards)
  return combine(folder, shards)
}

function readIndex(folder: string): ReadonlyMap<string, string> {
  const path = join(folder, indexName)
  const map = parseWeightMap(path)
  if (typeof map !== "object" || map === null || Array.isArray(map) || Object.keys(map).length === 0) {
    fail(folder, `${indexName}: weight_map must be an object from tensor to file`)
  }
  return new Map(
    Object.entries(map).map(([tensor, file]: [string, unknown]) => {
      if (typeof file !== "string" || !/^[^/\\]+\.safetensors$/.test(file)) {
        fail(folder, `${indexName}: tensor "${tensor}" points to ${JSON.stringify(file)}; expected a .safetensors file name inside the folder`)
      }
      return [tensor, file]
    }),
  )
}

function parseWeightMap(path: string): unknown {
  try {
    return (JSON.parse(readFileSync(path, "utf8")) as { weight_map?: unknown } | null)?.weight_map
  } catch (error) {
    throw toCohortError(error, "model_invalid", path)
  }
}

function compare(
  folder: string,
  shardByTensor: ReadonlyMap<string, string>,
  shardNames: readonly string[],
  shards: readonly SafetensorsFile[],
): void {
  const homes = new Map<string, string>()
  for (const [at, shard] of shards.entries()) {
    const shardName = shardNames[at] ?? shard.path
    for (const tensor of shard.names) {
      const other = homes.get(tensor)
      if (other !== undefined) fail(folder, `tensor "${tensor}" is in ${other} and in ${shardName}`)
      homes.set(tensor, shardName)
    }
  }
  for (const [tensor, shardName] of shardByTensor) {
    if (homes.get(tensor) !== shardName) fail(folder, `${indexName} places tensor "${tensor}" in ${shardName}, which does not hold it`)
  }
  for (const [tensor, shardName] of homes) {
    if (!shardByTensor.has(tensor)) fail(folder, `tensor "${tensor}" of ${shardName} is not in ${indexName}`)
  }
}

function combine(folder: string, shards: readonly SafetensorsFile[]): ModelWeights {
  const shardByTensor = new Map(shards.flatMap((shard) => shard.names.map((name) => [name, shard] as const)))
  const shardOf = (name: string): SafetensorsFile => {
    const shard = shardByTensor.get(name)
    if (shard === undefined) fail(folder, `the weights have no tensor "${name}"`, `There are ${shardByTensor.size} tensors.`)
    return shard
  }
  const close = (): void => {
    for (const shard of shards) shard.close()
  }
  const names = [...shardByTensor.keys()]
  return {
    folder,
    files: shards.map((shard) => shard.path.slice(folder.length).replace(/^[/\\]+/, "")),
    names,
    metadata: Object.assign({}, ...shards.map((shard) => shard.metadata)) as Readonly<Record<string, string>>,
    totalBytes: names.reduce((sum, name) => sum + shardOf(name).info(name).bytes, 0),
    has: (name) => shardByTensor.has(name),
    info: (name) => shardOf(name).info(name),
    bytes: (name) => shardOf(name).bytes(name),
    f32: (name) => shardOf(name).f32(name),
    close,
    [Symbol.dispose]: close,
  }
}

function noWeights(folder: string): CohortError {
  if (!existsSync(folder)) return new CohortError("model_invalid", `${folder}: no such folder`, { details: { folder } })
  const others = readdirSync(folder).filter((name) => /\.(bin|pt|pth|gguf|safetensors)$/.test(name))
  return new CohortError("model_invalid", `${folder}: has neither ${singleName} nor ${indexName}`, {
    hint:
      others.length === 0
        ? "Give a folder in Hugging Face layout."
        : `Found ${others.join(", ")}: save the model with safetensors under the usual name.`,
    details: { folder },
  })
}

function fail(folder: string, message: string, hint = "Fetch or save the model again."): never {
  throw new CohortError("model_invalid", `${folder}: ${message}`, { hint, details: { folder } })
}
