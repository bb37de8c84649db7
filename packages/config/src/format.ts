// A config as text for people, which is also TOML: it can be saved and loaded again.
import { isPlainObject, joinPath, type JsonValue } from "./json.ts"
import { leavesOf } from "./leaf.ts"
import type { Origins } from "./load.ts"
import type { RunConfig } from "./schema.ts"

const string = (text: string): string => JSON.stringify(text).replaceAll("\u007F", "\\u007F")

/** Undefined where TOML cannot say it: it has no null. */
export function toToml(value: JsonValue): string | undefined {
  if (value === null) return undefined
  if (typeof value === "string") return string(value)
  if (Array.isArray(value)) {
    const items = value.map(toToml)
    return items.includes(undefined) ? undefined : `[${items.join(", ")}]`
  }
  if (!isPlainObject(value)) return Object.is(value, -0) ? "-0.0" : String(value)
  const entries = Object.entries(value as Readonly<Record<string, JsonValue>>).map(([name, child]) => { // a table of JsonValue
    const text = toToml(child)
    return text === undefined ? undefined : `${joinPath("", name)} = ${text}`
  })
  if (entries.includes(undefined)) return undefined
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`
}

/**
 * One line per setting, `path = value  # origin`, under a line that states the precedence.
 *
 * @example
 * console.log(formatConfig(config, origins))
 * // train.learningRate = 0.00001  # flag --train.learningRate
 */
export function formatConfig(config: RunConfig, origins: Origins): string {
  const lines = leavesOf(config).map(({ path, value }) => {
    const text = toToml(value)
    return { setting: text === undefined ? `# ${path} = ${JSON.stringify(value)}` : `${path} = ${text}`, origin: origins[path] ?? "default" }
  })
  const width = Math.min(60, Math.max(...lines.map(({ setting }) => setting.length)))
  return [
    "# Precedence: override, flag, environment, file, default.",
    ...lines.map(({ setting, origin }) => `${setting.padEnd(width)}  # ${origin.replaceAll(/[\r\n]/g, " ")}`),
    "",
  ].join("\n")
}
