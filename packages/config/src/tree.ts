// The schema read as a tree of sections and keys: everything else (flags, environment names, docs, merging) walks this.
import * as v from "valibot"
import { runShape } from "./shape.ts"

/** What a valibot schema holds, of the kinds used here. */
export interface SchemaNode {
  readonly type: string
  readonly entries?: Readonly<Record<string, SchemaNode>>
  readonly wrapped?: SchemaNode
  readonly default?: unknown
  readonly item?: SchemaNode
  readonly options?: readonly unknown[]
  readonly literal?: unknown
  readonly pipe?: readonly PipeItem[]
}

/** A check in a pipe: its name and bound. */
export interface PipeItem {
  readonly kind: string
  readonly type: string
  readonly requirement?: unknown
  readonly message?: unknown
  readonly description?: string
}

/** A setting: what one flag sets. */
export interface KeyNode {
  readonly kind: "key"
  readonly path: string
  readonly schema: SchemaNode
  readonly doc: string
  readonly default: unknown
  /** False where there is a default, or the key may be left out. */
  readonly required: boolean
  /** True when the schema takes the value as it stands. */
  readonly accepts: (value: unknown) => boolean
}

/** A table of settings. */
export interface SectionNode {
  readonly kind: "section"
  readonly path: string
  readonly doc: string
  readonly optional: boolean
  readonly entries: ReadonlyMap<string, TreeNode>
}

export type TreeNode = KeyNode | SectionNode

/** The schema inside `optional` and its kin. */
export function unwrap(schema: SchemaNode): SchemaNode {
  return schema.wrapped === undefined ? schema : unwrap(schema.wrapped)
}

/** The doc line of a schema, from its `description`. */
export function docOf(schema: SchemaNode): string {
  return unwrap(schema).pipe?.find((item) => item.type === "description")?.description ?? ""
}

/** Members of a union that are schemas. */
export function unionOptions(schema: SchemaNode): readonly SchemaNode[] {
  return schema.type === "union" ? (schema.options as readonly SchemaNode[]) : [] // a union's options are schemas
}

/** The table form of a list's items, where items may be tables. */
export function itemTable(schema: SchemaNode): SchemaNode | undefined {
  const item = schema.item
  if (item === undefined) return undefined
  return [item, ...unionOptions(item)].find((option) => option.entries !== undefined)
}

function build(schema: SchemaNode, path: string): TreeNode {
  const inner = unwrap(schema)
  const doc = docOf(schema)
  if (inner.entries === undefined)
    return { kind: "key", path, schema: inner, doc, default: schema.default, required: schema.wrapped === undefined, accepts: (value) => v.is(inner as v.GenericSchema & SchemaNode, value) }
  const entries = new Map(Object.entries(inner.entries).map(([name, child]) => [name, build(child, path === "" ? name : `${path}.${name}`)]))
  return { kind: "section", path, doc, optional: schema.type === "exact_optional", entries }
}

function asSection(node: TreeNode): SectionNode {
  if (node.kind === "section") return node
  throw new TypeError("the run schema is not an object")
}

/** The root section. */
export const tree: SectionNode = asSection(build(runShape as v.GenericSchema & SchemaNode, ""))

function* walk(node: TreeNode): Generator<TreeNode> {
  yield node
  if (node.kind === "section") for (const child of node.entries.values()) yield* walk(child)
}

const all: readonly TreeNode[] = [...walk(tree)]

/** Every setting, in the order of the schema. */
export const keyNodes: readonly KeyNode[] = all.filter((node) => node.kind === "key")

/** Every section but the root. */
export const sectionNodes: readonly SectionNode[] = all.filter((node) => node.kind === "section").filter((node) => node.path !== "")

/** Key or section at a dotted path. */
export const nodeAt: (path: string) => TreeNode | undefined = (() => {
  const byPath = new Map(all.map((node) => [node.path, node]))
  return (path: string) => byPath.get(path)
})()
