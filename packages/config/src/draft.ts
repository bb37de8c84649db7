// A config while it is put together: values of several sources laid over each other, each with its origin, unknown keys set aside.
import { isPlainObject, isUnsafeKey, joinPath, type PlainObject } from "./json.ts"
import { type ConfigIssue, makeIssue } from "./issue.ts"
import { suggest, suggestSection } from "./suggest.ts"
import { itemTable, type KeyNode, type SchemaNode, type SectionNode, tree, type TreeNode } from "./tree.ts"

/** Says where the value at a path came from. */
export type OriginOf = (path: string) => string

/** Sections that must be there get an empty table, so that what is missing is reported key by key. */
function emptyRun(): PlainObject {
  const sections = [...tree.entries].filter(([, node]) => node.kind === "section" && !node.optional)
  return Object.fromEntries(sections.map(([name]) => [name, {}]))
}

export class Draft {
  /** Known keys only; values not checked yet. */
  readonly values: PlainObject = emptyRun()
  readonly issues: ConfigIssue[] = []
  readonly #origins = new Map<string, string>()

  /** Origin of the value at a path, or of the closest table around it; `default` where nothing was given. */
  originOf(path: string): string {
    for (let at = path; at !== ""; at = at.replace(/(^|\.)[^.]*$/, "")) {
      const origin = this.#origins.get(at) ?? this.#origins.get(at.replace(/\[\d+\]$/, ""))
      if (origin !== undefined) return origin
    }
    return "default"
  }

  /** Lays a whole input over what is there: tables merge, everything else replaces. */
  addInput(input: unknown, originOf: OriginOf): void {
    this.#add(tree, input, originOf)
  }

  /** Lays one value over a key. */
  addKey(key: KeyNode, value: unknown, originOf: OriginOf): void {
    this.#addKey(key, value, originOf)
  }

  #add(node: TreeNode, value: unknown, originOf: OriginOf): void {
    if (value === undefined) return
    if (node.kind === "key") this.#addKey(node, value, originOf)
    else if (isPlainObject(value)) this.#addSection(node, value, originOf)
    else
      this.issues.push(
        makeIssue({ kind: "invalid", path: node.path, value, expected: `a table with ${[...node.entries.keys()].join(", ")}`, origin: originOf(node.path) }),
      )
  }

  #addSection(section: SectionNode, value: PlainObject, originOf: OriginOf): void {
    if (section.optional) this.#tableAt(section.path)
    for (const [name, child] of Object.entries(value)) {
      const node = section.entries.get(name)
      if (node !== undefined) this.#add(node, child, originOf)
      else if (child !== undefined && !(section === tree && name === "$schema")) this.#unknown(joinPath(section.path, name), child, originOf)
    }
  }

  #addKey(key: KeyNode, value: unknown, originOf: OriginOf): void {
    const name = key.path.slice(key.path.lastIndexOf(".") + 1)
    const table = this.#tableAt(key.path.slice(0, Math.max(0, key.path.length - name.length - 1)))
    if (key.schema.type === "record" && isPlainObject(value)) {
      const target = isPlainObject(table[name]) ? table[name] : {}
      table[name] = target
      if (Object.keys(value).length === 0) this.#origins.set(key.path, originOf(key.path))
      this.#mergeTable(target, value, key.path, originOf)
      return
    }
    for (const path of this.#origins.keys()) if (path.startsWith(`${key.path}.`)) this.#origins.delete(path)
    this.#origins.set(key.path, originOf(key.path))
    const items = itemTable(key.schema)
    table[name] = items !== undefined && Array.isArray(value) ? value.map((item, i) => this.#known(items, item, `${key.path}[${i}]`, originOf)) : value
  }

  #mergeTable(target: PlainObject, value: PlainObject, path: string, originOf: OriginOf): void {
    for (const [name, child] of Object.entries(value)) {
      const at = joinPath(path, name)
      if (child === undefined) continue
      if (isUnsafeKey(name)) this.#unknown(at, child, originOf)
      else if (isPlainObject(child) && Object.keys(child).length > 0) {
        const inner = isPlainObject(target[name]) ? target[name] : {}
        target[name] = inner
        this.#mergeTable(inner, child, at, originOf)
      } else {
        target[name] = child
        this.#origins.set(at, originOf(at))
      }
    }
  }

  /** The item of a list without the keys that it does not have. */
  #known(schema: SchemaNode, item: unknown, path: string, originOf: OriginOf): unknown {
    if (!isPlainObject(item)) return item
    const names = Object.keys(schema.entries ?? {})
    const kept: PlainObject = {}
    for (const [name, child] of Object.entries(item)) {
      if (names.includes(name)) kept[name] = child
      else
        this.issues.push(
          makeIssue({ kind: "unknown", path: `${path}.${name}`, value: child, expected: `unknown key; there are ${names.join(", ")}`, origin: originOf(path) }),
        )
    }
    return kept
  }

  /** Reports an unknown key, or the keys in it when it is a table that stands for no section. */
  #unknown(path: string, value: unknown, originOf: OriginOf): void {
    const table = isPlainObject(value) && Object.keys(value).length > 0
    const section = table && !path.includes(".") ? suggestSection(path) : undefined
    if (table && section === undefined) {
      for (const [name, child] of Object.entries(value)) this.#unknown(joinPath(path, name), child, originOf)
      return
    }
    const { paths, note } = section === undefined ? suggest(path) : { paths: [section] }
    this.issues.push(
      makeIssue({
        kind: "unknown",
        path,
        value,
        expected: note === undefined ? "unknown key" : `unknown key; ${note}`,
        origin: originOf(path),
        suggestions: paths,
      }),
    )
  }

  #tableAt(path: string): PlainObject {
    let table = this.values
    for (const name of path === "" ? [] : path.split(".")) {
      const inner = isPlainObject(table[name]) ? table[name] : {}
      table[name] = inner
      table = inner
    }
    return table
  }
}
