// The tokenizer files of a Hugging Face model folder, in the several forms in which they are found.
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { basename, join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"

type Fields = Readonly<Record<string, unknown>>

/** What a tokenizer is made of; `templates` are chat templates by name, the usual one being `default`. */
export interface TokenizerFiles {
  /** For messages: where the files came from. */
  readonly source: string
  /** tokenizer.json */
  readonly tokenizer: Fields
  /** tokenizer_config.json */
  readonly config: Fields
  /** generation_config.json, or config.json where that is missing. */
  readonly generation: Fields
  readonly templates: ReadonlyMap<string, string>
}

/**
 * Reads the tokenizer files of `folder`. A template file wins over the template inside tokenizer_config.json.
 *
 * @throws CohortError `tokenizer_invalid`
 */
export function readTokenizerFiles(folder: string): TokenizerFiles {
  const tokenizer = readJson(join(folder, "tokenizer.json"))
  if (tokenizer === undefined) {
    throw new CohortError("tokenizer_invalid", `${folder}: has no tokenizer.json`, {
      hint: "Save the tokenizer in the fast format: AutoTokenizer.from_pretrained(...).save_pretrained(folder).",
      details: { folder },
    })
  }
  const config = readJson(join(folder, "tokenizer_config.json")) ?? {}
  const generation = readJson(join(folder, "generation_config.json")) ?? readJson(join(folder, "config.json")) ?? {}
  const templates = new Map([
    ...templatesIn(config.chat_template, join(folder, "tokenizer_config.json")),
    ...templatesIn(readJson(join(folder, "chat_template.json"))?.chat_template, join(folder, "chat_template.json")),
    ...templateFiles(folder),
  ])
  return { source: folder, tokenizer, config, generation, templates }
}

function templateFiles(folder: string): [string, string][] {
  const found: [string, string][] = []
  const extra = join(folder, "additional_chat_templates")
  if (existsSync(extra)) {
    for (const file of readdirSync(extra).filter((name) => name.endsWith(".jinja")).toSorted()) {
      found.push([basename(file, ".jinja"), readText(join(extra, file))])
    }
  }
  const main = join(folder, "chat_template.jinja")
  if (existsSync(main)) found.push(["default", readText(main)])
  return found
}

// One template as text, or a list of { name, template }.
function templatesIn(value: unknown, path: string): [string, string][] {
  if (value === undefined || value === null) return []
  if (typeof value === "string") return [["default", value]]
  if (!Array.isArray(value)) throw invalidTemplate(path, value)
  return value.map((item: unknown) => {
    const { name, template } = (item ?? {}) as Fields
    if (typeof name !== "string" || typeof template !== "string") throw invalidTemplate(path, item)
    return [name, template]
  })
}

function invalidTemplate(path: string, value: unknown): CohortError {
  return new CohortError("tokenizer_invalid", `${path}: chat_template is ${JSON.stringify(value).slice(0, 60)}`, {
    hint: "Expected text, or a list of objects with name and template.",
    details: { path },
  })
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8")
  } catch (error) {
    throw toCohortError(error, "tokenizer_invalid", path)
  }
}

function readJson(path: string): Fields | undefined {
  if (!existsSync(path)) return undefined
  const text = readText(path)
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields
  } catch (error) {
    throw toCohortError(error, "tokenizer_invalid", path)
  }
  throw new CohortError("tokenizer_invalid", `${path}: expected a JSON object`, { details: { path } })
}
