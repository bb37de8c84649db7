// Keys given twice in one table of a JSON or YAML file: parsers keep the last one in silence, TOML's refuses them.
import { joinPath } from "./json.ts"

const JSON_TOKEN = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|[{}[\],:]|[^\s{}[\],:"'/]+/g

interface JsonTable {
  /** Undefined in a list, where nothing is a key. */
  readonly keys: Set<string> | undefined
  readonly path: string
}

function unquote(text: string): string {
  if (text.startsWith('"')) return String(JSON.parse(text.replaceAll(/\\\n/g, "")))
  return text.startsWith("'") ? text.slice(1, -1) : text
}

/** Dotted paths given twice in valid JSON, JSONC or JSON5. */
export function duplicateJsonKeys(text: string): readonly string[] {
  const found: string[] = []
  const stack: JsonTable[] = []
  let path = ""
  let expectsKey = false
  for (const [token] of text.matchAll(JSON_TOKEN)) {
    if (token.startsWith("//") || token.startsWith("/*")) continue
    const table = stack.at(-1)
    if (token === "{" || token === "[") {
      stack.push({ keys: token === "{" ? new Set() : undefined, path })
      expectsKey = token === "{"
    } else if (token === "}" || token === "]") {
      stack.pop()
      expectsKey = false
    } else if (token === ",") expectsKey = table?.keys !== undefined
    else if (expectsKey && table?.keys !== undefined) {
      const key = unquote(token)
      path = joinPath(table.path, key)
      if (table.keys.has(key)) found.push(path)
      table.keys.add(key)
      expectsKey = false
    }
  }
  return found
}

const YAML_KEY = /^((?: *-(?= ))* *)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[A-Za-z_$][\w.$-]*) *:(?= |$)(.*)$/
const BLOCK_SCALAR = /^\s*(?:-\s+)*(?:[&!]\S+\s+)*[|>][-+0-9]*\s*(?:\s#.*)?$/
/** Only there do brackets and quotes mean something; in plain text they are letters. */
const FLOW_OR_QUOTED = /^\s*(?:-\s+)*(?:[&!]\S+\s+)*["'[{]/
const CLOSED = /"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?<=\s|^)#.*/g

/** What a line leaves open: brackets of flow style, or a quote. */
function openAfter(line: string): { brackets: number; quote: string | undefined } {
  const bare = line.replaceAll(CLOSED, "")
  const quote = /(?:^|[\s,[{])(["'])/.exec(bare)?.[1]
  const before = quote === undefined ? bare : bare.slice(0, bare.indexOf(quote))
  const count = (pattern: RegExp): number => before.match(pattern)?.length ?? 0
  return { brackets: count(/[[{]/g) - count(/[\]}]/g), quote }
}

interface YamlTable {
  readonly column: number
  readonly keys: Set<string>
  readonly path: string
  /** Path of the key seen last: that of a table below it. */
  last: string
}

/** Dotted paths given twice in the block tables of valid YAML; tables written in braces are not looked into. */
export function duplicateYamlKeys(text: string): readonly string[] {
  const found: string[] = []
  let stack: YamlTable[] = []
  let open: ReturnType<typeof openAfter> = { brackets: 0, quote: undefined }
  let scalarColumn: number | undefined
  for (const line of text.split(/\r?\n/)) {
    const column = line.search(/\S/)
    if (column === -1 || (scalarColumn !== undefined && column > scalarColumn)) continue
    scalarColumn = undefined
    if (open.quote !== undefined || open.brackets > 0) {
      const after = openAfter(open.quote === undefined ? line : open.quote + line)
      open = { brackets: open.brackets + after.brackets, quote: after.quote }
      continue
    }
    const [, lead = "", key, rest = ""] = YAML_KEY.exec(line) ?? []
    const at = key === undefined ? column : lead.length
    // The item of a list begins a table of its own, right of its dash.
    const dash = line[column] === "-" ? column : at
    stack = stack.filter((table) => table.column <= dash)
    if (key !== undefined) {
      let table = stack.at(-1)
      if (table === undefined || table.column < at) {
        table = { column: at, keys: new Set(), path: table?.last ?? "", last: "" }
        stack.push(table)
      }
      const name = unquote(key)
      table.last = joinPath(table.path, name)
      if (table.keys.has(name)) found.push(table.last)
      table.keys.add(name)
    }
    const value = key === undefined ? line.slice(column) : rest
    if (BLOCK_SCALAR.test(value)) scalarColumn = at
    else if (FLOW_OR_QUOTED.test(value)) open = openAfter(value)
  }
  return found
}
