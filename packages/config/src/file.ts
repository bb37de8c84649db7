// Config files by extension. The parsers are Bun's own, so this is the one file that needs Bun.
import { CohortError, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import { duplicateJsonKeys, duplicateYamlKeys } from "./duplicate-key.ts"
import { isPlainObject, type PlainObject } from "./json.ts"

/** How a file is reached; given by the caller so that tests and servers choose. */
export interface FileAccess {
  /** The text of a file; fails with ENOENT where there is none. */
  readonly readText: (path: string) => Promise<string>
  /** Loads a TypeScript module and returns its exports. */
  readonly importModule: (path: string) => Promise<unknown>
}

const parsers: Readonly<Record<string, (text: string) => unknown>> = {
  toml: (text) => Bun.TOML.parse(text),
  yaml: (text) => Bun.YAML.parse(text),
  yml: (text) => Bun.YAML.parse(text),
  json: (text) => JSON.parse(text),
  jsonc: (text) => Bun.JSONC.parse(text),
  json5: (text) => Bun.JSON5.parse(text),
}

const EXTENSIONS = [...Object.keys(parsers), "ts"].map((name) => `.${name}`).join(", ")

function placeOf(error: unknown): string {
  const line: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "line") : undefined
  return typeof line === "number" && line > 0 ? `:${line}` : ""
}

async function readModule(path: string, access: FileAccess): Promise<unknown> {
  try {
    const module = await access.importModule(path)
    return typeof module === "object" && module !== null ? Reflect.get(module, "default") : undefined
  } catch (error) {
    if (isCohortError(error)) throw error
    throw new CohortError("config_invalid", `${path} could not be loaded: ${messageOf(error)}`, { cause: error, details: { path } })
  }
}

/** Keys that a file gives twice; of these parsers only TOML's refuses them. */
function duplicatesIn(extension: string, text: string): readonly string[] {
  if (extension === "toml") return []
  return extension.startsWith("json") ? duplicateJsonKeys(text) : duplicateYamlKeys(text)
}

async function readParsed(path: string, extension: string, parse: (text: string) => unknown, access: FileAccess): Promise<unknown> {
  let text: string
  try {
    text = await access.readText(path)
  } catch (error) {
    const code: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined
    if (code !== "ENOENT") throw toCohortError(error, "file_invalid", path)
    throw new CohortError("config_not_found", `no config file at ${path}`, { cause: error, hint: "Check the path, or write one with `cohort init`.", details: { path } })
  }
  return parseText(path, extension, parse, text)
}

function parseText(path: string, extension: string, parse: (text: string) => unknown, text: string): unknown {
  const plain = text.replace(/^\uFEFF/, "")
  let value: unknown
  try {
    value = parse(plain)
  } catch (error) {
    throw new CohortError("config_invalid", `${path}${placeOf(error)}: ${messageOf(error)}`, { cause: error, details: { path } })
  }
  const twice = duplicatesIn(extension, plain)
  if (twice.length === 0) return value
  throw new CohortError("config_invalid", `${path}: given twice: ${twice.join(", ")}`, { hint: "Remove one of them; only the last would count.", details: { path, keys: twice } })
}

/**
 * The table in the text of a JSON or YAML file; an empty one is an empty table.
 *
 * Throws `config_invalid` when it does not parse, gives a key twice, or holds no table.
 */
export function parseTable(name: string, text: string): PlainObject {
  const extension = text.trimStart().startsWith("{") ? "json" : "yaml"
  const value = parseText(name, extension, parsers[extension]!, text) ?? {}
  if (isPlainObject(value)) return value
  throw new CohortError("config_invalid", `${name} holds no table of options`, { hint: "The top level is a table of options.", details: { path: name } })
}

/**
 * The table in a config file. An empty file is an empty table.
 *
 * Throws `config_not_found`, or `config_invalid` when it does not parse, is of another kind, or holds no table.
 */
export async function readConfigFile(path: string, access: FileAccess): Promise<PlainObject> {
  const extension = /\.([a-z0-9]+)$/i.exec(path)?.[1]?.toLowerCase() ?? ""
  const parse = parsers[extension]
  if (parse === undefined && extension !== "ts")
    throw new CohortError("config_invalid", `${path}: config files end in ${EXTENSIONS}`, { details: { path } })
  const value = parse === undefined ? await readModule(path, access) : await readParsed(path, extension, parse, access)
  if (isPlainObject(value)) return value
  if (value === null && parse !== undefined) return {}
  const hint = parse === undefined ? "Export it as default: export default defineConfig({ ... })" : "The top level is a table of settings."
  throw new CohortError("config_invalid", `${path} holds no table of settings`, { hint, details: { path } })
}
