// The settings of a config one by one, tables opened.
import { isPlainObject, joinPath, type JsonValue, toJsonValue } from "./json.ts"
import { type TreeNode, tree } from "./tree.ts"

export interface Leaf {
  readonly path: string
  readonly value: JsonValue
}

function* table(path: string, value: object): Generator<Leaf> {
  const entries = Object.entries(value)
  if (entries.length === 0) yield { path, value: {} }
  for (const [name, child] of entries) {
    const at = joinPath(path, name)
    if (isPlainObject(child)) yield* table(at, child)
    else yield { path: at, value: toJsonValue(child) }
  }
}

function* walk(node: TreeNode, value: unknown): Generator<Leaf> {
  if (value === undefined) return
  if (node.kind === "key") {
    if (isPlainObject(value)) yield* table(node.path, value)
    else yield { path: node.path, value: toJsonValue(value) }
  } else if (isPlainObject(value)) for (const [name, child] of node.entries) yield* walk(child, value[name])
}

/** Every setting that has a value, in the order of the schema; lists are one leaf. */
export function leavesOf(config: object): readonly Leaf[] {
  return [...walk(tree, config)]
}
