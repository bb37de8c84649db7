// Finds and imports modules for the registry: from the user's project first, then from the installation.
import { CohortError, messageOf } from "@cohort/errors"
import type { PluginHost } from "./host.ts"
import { manifestProblems } from "./manifest.ts"
import { didYouMean } from "./nearest.ts"
import { packageNames } from "./reference.ts"

/** A module's exports and the file they came from. */
export interface LoadedModule {
  readonly path: string
  readonly exports: Readonly<Record<string, unknown>>
}

export interface Search {
  readonly fromDir: string
  /** The config key that asked, such as "rewards[0].use". */
  readonly askedBy?: string | undefined
}

export interface LoaderOptions extends PluginHost {
  /** Folders searched after the project's. */
  readonly installDirs?: readonly string[]
}

/** "asked for in rewards[0].use, from the folder /projects/sums" */
export function askedIn({ fromDir, askedBy }: Search): string {
  return `${askedBy === undefined ? "asked for" : `asked for in ${askedBy}`}, from the folder ${fromDir}`
}

/**
 * Imports the module of a path reference.
 *
 * @throws CohortError `plugin_not_found`, `plugin_invalid`.
 */
export async function loadPath(host: LoaderOptions, path: string, search: Search): Promise<LoadedModule> {
  const resolved = resolve(host, path, search.fromDir, search)
  if (resolved === undefined)
    throw new CohortError("plugin_not_found", `there is no module ${JSON.stringify(path)} (${askedIn(search)})`, {
      hint: "A path is relative to the folder of the config file; write its extension.",
      details: { asked: path, fromDir: search.fromDir, tried: [path] },
    })
  return importResolved(host, path, resolved, search)
}

/**
 * Imports the package that a name means: `@cohort/<name>` or `cohort-plugin-<name>`, else the package of that very name.
 *
 * @param known Names offered as "did you mean".
 * @throws CohortError `plugin_not_found` with all that was tried; `plugin_invalid` where two packages fit, or it cannot be imported.
 */
export async function loadPackage(host: LoaderOptions, name: string, search: Search, known: readonly string[]): Promise<LoadedModule> {
  const dirs = [search.fromDir, ...(host.installDirs ?? [])]
  const { first, last } = packageNames(name)
  const found = firstFound(host, first, dirs, search)
  if (found.length > 1)
    throw new CohortError("plugin_invalid", `${JSON.stringify(name)} means two packages: ${found.map(({ specifier, path }) => `${specifier} (${path})`).join(" and ")}; ${askedIn(search)}`, {
      hint: "Write the full package name.",
      details: { asked: name, found },
    })
  const one = found[0] ?? firstFound(host, last, dirs, search)[0]
  if (one === undefined) {
    const tried = [...first, ...last]
    throw new CohortError("plugin_not_found", `no plugin ${JSON.stringify(name)} (${askedIn(search)}); tried the packages ${tried.join(", ")} in ${dirs.join(", ")}.${didYouMean(name, known)}`, {
      hint: `Install it in the project: bun add ${first[0]}`,
      details: { asked: name, fromDir: search.fromDir, tried, dirs },
    })
  }
  return importResolved(host, one.specifier, one.path, search)
}

interface Found {
  readonly specifier: string
  readonly path: string
}

/** Each specifier once, from the first folder that has it. */
function firstFound(host: LoaderOptions, specifiers: readonly string[], dirs: readonly string[], search: Search): Found[] {
  return specifiers.flatMap((specifier) => {
    for (const dir of dirs) {
      const path = resolve(host, specifier, dir, search)
      if (path !== undefined) return [{ specifier, path }]
    }
    return []
  })
}

function resolve(host: LoaderOptions, specifier: string, dir: string, search: Search): string | undefined {
  try {
    return host.resolve(specifier, dir)
  } catch (cause) {
    throw new CohortError("plugin_invalid", `${specifier} is there but cannot be resolved (${askedIn(search)}): ${messageOf(cause)}`, { cause })
  }
}

async function importResolved(host: LoaderOptions, specifier: string, path: string, search: Search): Promise<LoadedModule> {
  const problems = manifestProblems(await readManifest(host, specifier, path))
  if (problems.length > 0)
    throw new CohortError("plugin_invalid", `${specifier} (${path}) was not imported: ${problems.join("; ")}; ${askedIn(search)}`, {
      hint: "Install a version of the plugin made for this Cohort.",
      details: { specifier, path, problems },
    })
  try {
    const exports = await host.importModule(path)
    return { path, exports: exports as Readonly<Record<string, unknown>> }
  } catch (cause) {
    throw new CohortError("plugin_invalid", `importing ${specifier} (${path}) failed: ${messageOf(cause)}; ${askedIn(search)}`, {
      hint: "The plugin's own code or one of its dependencies failed while loading.",
      cause,
    })
  }
}

async function readManifest(host: LoaderOptions, specifier: string, path: string): Promise<unknown> {
  try {
    return await host.readManifest?.(path)
  } catch (cause) {
    throw new CohortError("plugin_invalid", `the package.json of ${specifier} (${path}) cannot be read: ${messageOf(cause)}`, { cause })
  }
}
