// The edge where plugins meet the machine: resolving and importing modules with Bun, reading package.json files.
import { dirname, join } from "node:path"

export interface PluginHost {
  /** Imports a resolved module. */
  importModule(path: string): Promise<unknown>
  /** Absolute path of a specifier as seen from a folder, or undefined where there is none. Throws for a broken package. */
  resolve(specifier: string, fromDir: string): string | undefined
  /** The package.json that a resolved module belongs to; undefined where it has none. */
  readManifest?(modulePath: string): Promise<unknown>
}

/**
 * Resolves and imports with Bun.
 *
 * @example createRegistry({ ...systemHost(), installDirs: [import.meta.dir] })
 */
export function systemHost(): PluginHost {
  return {
    importModule: (path) => import(path),
    resolve(specifier, fromDir) {
      try {
        const path = Bun.resolveSync(specifier, fromDir)
        return isFetched(path) ? undefined : path
      } catch (error) {
        // Bun uses the one code for "no such package" and for "package without this entry".
        if ((error as { readonly code?: unknown } | null)?.code === "ERR_MODULE_NOT_FOUND") return undefined
        throw error
      }
    },
    async readManifest(modulePath) {
      for (let dir = dirname(modulePath); ; dir = dirname(dir)) {
        const file = Bun.file(join(dir, "package.json"))
        if (await file.exists()) return file.json()
        if (dirname(dir) === dir) return undefined
      }
    },
  }
}

/** Where a folder has no node_modules, Bun resolves a name by fetching the package of that name: whoever's it is, nobody installed it. */
export function isFetched(path: string): boolean {
  return /@@[^/\\]*@\d+[/\\]/.test(path)
}
