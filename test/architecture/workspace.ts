// The workspace as the checks see it: manifests, source files and their imports.
import { readdirSync, readFileSync, existsSync } from "node:fs"
import { join, resolve } from "node:path"
import { importsOf, type Import } from "./imports.ts"

/** `example` is private too, and stands for what a user would write. */
export type Kind = "package" | "plugin" | "app" | "private" | "example"

/** A target of `exports`: one path, or a path per condition in order. */
export type ExportTarget = string | Readonly<Record<string, string>>

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly description?: string
  readonly license?: string
  readonly type?: string
  readonly sideEffects?: unknown
  readonly keywords?: readonly string[]
  readonly files?: readonly string[]
  readonly bin?: Readonly<Record<string, string>>
  readonly exports?: Readonly<Record<string, ExportTarget>>
  readonly engines?: Readonly<Record<string, string>>
  readonly scripts?: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

export interface SourceFile {
  /** From the workspace's own folder, as `src/queue.ts`. */
  readonly path: string
  readonly text: string
  /** Published: under `src`, no test, and no helper that only tests import. */
  readonly shipped: boolean
  readonly imports: readonly Import[]
}

export interface Workspace {
  /** Folder name, as `weight-transfer`. */
  readonly folder: string
  /** From the root of the repository, as `packages/weight-transfer`. */
  readonly path: string
  readonly kind: Kind
  readonly manifest: Manifest
  readonly readme: string | undefined
  readonly files: readonly SourceFile[]
}

export const root = resolve(import.meta.dir, "../..")

const kinds: Readonly<Record<string, Kind>> = { packages: "package", plugins: "plugin", apps: "app", examples: "example" }
const skipped = new Set(["node_modules", "dist", ".turbo", "fixtures", "runs"])

/** Every file below a folder of the repository, as paths from it; build outputs and recorded fixtures left out. */
export function filesBelow(path: string, skip: ReadonlySet<string> = skipped): readonly string[] {
  const found: string[] = []
  const visit = (folder: string): void => {
    for (const entry of readdirSync(join(root, path, folder), { withFileTypes: true })) {
      const name = folder === "" ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory() && !skip.has(entry.name)) visit(name)
      else if (entry.isFile()) found.push(name)
    }
  }
  visit("")
  return found.toSorted()
}

function isShipped(path: string, manifest: Manifest): boolean {
  if (!path.startsWith("src/") || path.endsWith(".test.ts")) return false
  const helper = /(?:^|\/)testing(?:\/|\.ts$)/.test(path)
  return !helper || (manifest.exports !== undefined && "./testing" in manifest.exports && path.startsWith("src/testing/"))
}

function readWorkspace(path: string, kind: Kind): Workspace {
  const manifest = JSON.parse(readFileSync(join(root, path, "package.json"), "utf8")) as Manifest
  const readmePath = join(root, path, "README.md")
  const files = filesBelow(path)
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => {
      const text = readFileSync(join(root, path, file), "utf8")
      return { path: file, text, shipped: kind === "example" ? !file.endsWith(".test.ts") : kind !== "private" && isShipped(file, manifest), imports: importsOf(text) }
    })
  return {
    folder: path.split("/").at(-1)!,
    path,
    kind,
    manifest,
    readme: existsSync(readmePath) ? readFileSync(readmePath, "utf8") : undefined,
    files,
  }
}

/** All workspaces that the root manifest names. */
export function readWorkspaces(): readonly Workspace[] {
  const { workspaces } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { workspaces: { packages: readonly string[] } }
  return workspaces.packages.flatMap((pattern) => {
    const [parent, star] = pattern.split("/")
    if (star === undefined) return [readWorkspace(pattern, "private")]
    const names = readdirSync(join(root, parent!)).filter((name) => existsSync(join(root, parent!, name, "package.json")))
    return names.toSorted().map((name) => readWorkspace(`${parent}/${name}`, kinds[parent!] ?? "private"))
  })
}
