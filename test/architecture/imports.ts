// What a TypeScript source imports, types included. Bun's scanner reads the syntax but drops what only types use, so those are turned into value
// imports for a second look.

export interface Import {
  readonly specifier: string
  /** True where the import vanishes in the build. */
  readonly typeOnly: boolean
}

const scanner = new Bun.Transpiler({ loader: "ts", trimUnusedImports: false })

/** `import("x").Type` in a type, which the scanner does not see. */
const typeQuery = /\bimport\(\s*["']([^"']+)["']\s*\)\s*\.\s*[A-Z]/g

/**
 * All modules that a source names, once each.
 *
 * @example importsOf(`import type { A } from "b"`) // [{ specifier: "b", typeOnly: true }]
 */
export function importsOf(text: string): readonly Import[] {
  const source = text.replace(/^#!.*/, "")
  const values = new Set(scanner.scanImports(source).map(({ path }) => path))
  const withTypes = source
    .replace(/\b(import|export)\s+type\s+(?=[{*])/g, "$1 ")
    .replace(/\bimport\s+type\s+(?=\w)/g, "import ")
    .replace(/([{,]\s*)type\s+(?=\w+(?:\s+as\s+\w+)?\s*[,}])/g, "$1")
  const all = new Set(scanner.scanImports(withTypes).map(({ path }) => path))
  for (const [, specifier] of withoutComments(source).matchAll(typeQuery)) all.add(specifier!)
  return [...all].map((specifier) => ({ specifier, typeOnly: !values.has(specifier) }))
}

/** The package of a specifier: `@a/b/c` gives `@a/b`, `x/y` gives `x`; undefined for relative paths and for what Bun has built in. */
export function packageOf(specifier: string): string | undefined {
  if (/^(\.|\/|node:|bun:)/.test(specifier) || specifier === "bun") return undefined
  return specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/")
}

const comments = /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\/\*[\s\S]*?\*\/|(?<=^|[\s;,(){}[\]])\/\/[^\n]*/gm

/** The source with its comments blanked, line numbers kept; strings stay as they are. */
export function withoutComments(source: string): string {
  return source.replace(comments, (match, string?: string) => string ?? match.replace(/[^\n]/g, " "))
}
