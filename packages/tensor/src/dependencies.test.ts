// Installing this package must run no program of somebody else: tfjs's node packages would download a library of their own.
import { expect, test } from "bun:test"
import { readFileSync, realpathSync } from "node:fs"
import { dirname, join } from "node:path"

interface Manifest {
  readonly dependencies?: Record<string, string>
  readonly scripts?: Record<string, string>
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest
}

/** Folder of an installed package, looked up as Node does from `from`. */
function folderOf(name: string, from: string): string {
  for (let dir = from; ; dir = dirname(dir)) {
    const folder = join(dir, "node_modules", name)
    if (Bun.file(join(folder, "package.json")).size > 0) return realpathSync(folder)
    if (dirname(dir) === dir) throw new Error(`${name} is not installed for ${from}`)
  }
}

test("no dependency has an install script", () => {
  const seen = new Map<string, readonly string[]>()
  const visit = (folder: string): void => {
    if (seen.has(folder)) return
    const manifest = manifestOf(folder)
    seen.set(folder, ["preinstall", "install", "postinstall"].filter((script) => manifest.scripts?.[script] !== undefined))
    for (const name of Object.keys(manifest.dependencies ?? {})) if (!name.startsWith("@types/")) visit(folderOf(name, folder))
  }
  visit(dirname(import.meta.dir))
  expect([...seen.keys()].some((folder) => folder.endsWith("tfjs-core"))).toBe(true)
  expect([...seen].filter(([, scripts]) => scripts.length > 0)).toEqual([])
})
