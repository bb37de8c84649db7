// Where a model is: a folder, a file: address, or a name on the hub whose files are fetched first.
import { existsSync, readFileSync, statSync } from "node:fs"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { CohortError, isCohortError, toCohortError } from "@cohort/errors"
import { type HubClient, type HubLoadOptions, type HubSnapshot, parseHubName } from "@cohort/hub"

export interface LocateOptions extends HubLoadOptions {
  /** Folder in which relative paths start. */
  readonly baseDir: string
  readonly hub: HubClient
  /** Commit of an earlier use: a branch may have moved on since. */
  readonly commit?: string
}

export interface LocatedModel {
  readonly folder: string
  /** Of a model of the hub. */
  readonly commit?: string
}

const indexName = "model.safetensors.index.json"
const singleName = "model.safetensors"
/** Config, tokenizer and chat templates; never code. */
const companion = /^(?:additional_chat_templates\/)?[^/]+\.(?:json|jinja|txt)$/

/**
 * The folder of a model. Of a model on the hub only what is read is fetched: config, tokenizer, chat templates and safetensors.
 *
 * @param path a folder, a `file:` address, or `organisation/name[@revision]` of the hub; a folder of that name wins
 * @throws CohortError `model_invalid` when there is neither, naming both places that were looked at; see `HubSnapshot.load`
 * @example
 * const { folder } = await locateModel("Qwen/Qwen3-0.6B", { baseDir: process.cwd(), hub: createHubClient(hubSettings(process.env)) })
 */
export async function locateModel(path: string, options: LocateOptions): Promise<LocatedModel> {
  const local = localFolder(path, options.baseDir)
  if (local !== undefined) return { folder: local }
  const snapshot = await openOnHub(path, options)
  const weights = snapshot.files.includes(singleName) ? [singleName] : snapshot.files.includes(indexName) ? await shards(snapshot, options) : []
  if (weights.length === 0) throw new CohortError("model_invalid", `${path} on the hub holds no safetensors`, { hint: "Take a repository that has model.safetensors, or convert it with transformers' save_pretrained." })
  const folder = await snapshot.load([...snapshot.files.filter((file) => companion.test(file) && file !== indexName), ...(weights[0] === singleName ? [] : [indexName]), ...weights], options)
  return { folder, commit: snapshot.commit }
}

/**
 * Looks whether a model is there, without fetching its weights.
 * @throws CohortError `model_invalid`
 */
export async function checkModelPath(path: string, options: LocateOptions): Promise<void> {
  const folder = localFolder(path, options.baseDir)
  const holds = folder === undefined ? new Set((await openOnHub(path, options)).files) : undefined
  for (const name of ["config.json", "tokenizer.json"])
    if (!(holds === undefined ? existsSync(join(folder!, name)) : holds.has(name))) throw new CohortError("model_invalid", `${folder ?? path} has no ${name}`, { hint: "Give a model folder in Hugging Face layout." })
}

/** Undefined where the path can only be a name of the hub. */
function localFolder(path: string, baseDir: string): string | undefined {
  const folder = path.startsWith("file:") ? fileURLToPath(path) : resolve(baseDir, path)
  if (existsSync(folder)) {
    if (statSync(folder).isDirectory()) return folder
    throw new CohortError("model_invalid", `${folder} is a file, a model is a folder`, { hint: "Give the folder that holds its config.json." })
  }
  if (parseHubName(path) === undefined) throw new CohortError("model_invalid", `there is no folder ${folder}`, { hint: `Relative paths start at ${baseDir}. A model of the hub is named as organisation/name.` })
  return undefined
}

async function openOnHub(path: string, { baseDir, hub, commit, signal }: LocateOptions): Promise<HubSnapshot> {
  const { name, revision } = parseHubName(path)!
  try {
    return await hub.open({ kind: "model", name, revision: commit ?? revision }, signal)
  } catch (error) {
    if (!isCohortError(error) || error.code !== "model_invalid") throw error
    // A folder that was mistyped looks like a name of the hub.
    throw new CohortError("model_invalid", `there is no folder ${resolve(baseDir, path)}, and on the hub: ${error.message}`, { cause: error, ...(error.hint === undefined ? {} : { hint: error.hint }) })
  }
}

async function shards(snapshot: HubSnapshot, options: HubLoadOptions): Promise<string[]> {
  const folder = await snapshot.load([indexName], options)
  const path = join(folder, indexName)
  try {
    const { weight_map: map } = JSON.parse(readFileSync(path, "utf8")) as { readonly weight_map: Readonly<Record<string, string>> }
    return [...new Set(Object.values(map))]
  } catch (cause) {
    throw toCohortError(cause, "model_invalid", path)
  }
}
