// The rules about imports, as functions from workspaces to sentences: none means that all is well.
import { dirname, join, relative } from "node:path"
import { appDirections, authorFacing, bundled, loadedByName, packageDirections, pluginDirections, typeOnlyDirections } from "./directions.ts"
import { packageOf } from "./imports.ts"
import type { Workspace } from "./workspace.ts"

const ours = (folder: string): string => `@cohort/${folder}`

/** Names that a workspace's shipped files may import of ours; undefined where the table does not know it, or it is private. */
export function allowedOf(workspace: Workspace): ReadonlySet<string> | undefined {
  const { folder, kind } = workspace
  if (kind === "private") return undefined
  if (kind === "example") return new Set([ours("plugin")])
  if (kind === "plugin") {
    const allowed = pluginDirections[folder.split("-")[0]!]
    return allowed && new Set(allowed.map(ours))
  }
  const allowed = (kind === "app" ? appDirections : packageDirections)[folder]
  return allowed && new Set([ours("errors"), ...allowed.map(ours)])
}

/** Imports of ours that the table does not allow. */
export function forbiddenArrows(workspaces: readonly Workspace[]): readonly string[] {
  const apps = new Set(workspaces.filter(({ kind }) => kind === "app").map(({ manifest }) => manifest.name))
  return workspaces.flatMap((workspace) => {
    const { kind, path, folder, manifest, files } = workspace
    const allowed = allowedOf(workspace)
    if (kind !== "private" && allowed === undefined) return [`${path} is not in test/architecture/directions.ts`]
    const typeOnly = new Set((kind === "package" ? (typeOnlyDirections[folder] ?? []) : []).map(ours))
    return files.flatMap((file) =>
      file.imports.flatMap(({ specifier, typeOnly: vanishes }) => {
        const name = packageOf(specifier)
        if (name === undefined || !name.startsWith("@cohort/") || name === manifest.name) return []
        if (vanishes && typeOnly.has(name)) return []
        if (kind !== "private" && apps.has(name)) return [`${path}/${file.path} imports the app ${name}`]
        if (file.shipped && allowed !== undefined && !allowed.has(name)) return [`${path}/${file.path} imports ${name}, which ${folder} may not`]
        return []
      }),
    )
  })
}

/** Imports of a path that a package does not export, and relative imports that leave their workspace. */
export function deepImports(workspaces: readonly Workspace[]): readonly string[] {
  const exported = new Map(workspaces.map(({ manifest }) => [manifest.name, new Set(Object.keys(manifest.exports ?? {}))]))
  return workspaces.flatMap(({ path, files }) =>
    files.flatMap((file) =>
      file.imports.flatMap(({ specifier }) => {
        if (specifier.startsWith(".")) {
          const target = relative(path, join(path, dirname(file.path), specifier))
          return target.startsWith("..") ? [`${path}/${file.path} reaches into another workspace: ${specifier}`] : []
        }
        const name = packageOf(specifier)
        const exports = name === undefined ? undefined : exported.get(name)
        if (exports === undefined) return []
        const subpath = `.${specifier.slice(name!.length)}`
        return exports.has(subpath) ? [] : [`${path}/${file.path} imports ${specifier}, which ${name} does not export`]
      }),
    ),
  )
}

/** Dependencies that are imported but not named, or named but not imported. */
export function dependencyMismatches(workspaces: readonly Workspace[]): readonly string[] {
  return workspaces.flatMap(({ path, folder, kind, manifest, files }) => {
    const imported = (shipped: boolean): Set<string> =>
      new Set(files.filter((file) => file.shipped === shipped).flatMap(({ imports }) => imports.flatMap(({ specifier }) => packageOf(specifier) ?? [])))
    const runtime = new Set([...Object.keys(manifest.dependencies ?? {}), ...Object.keys(manifest.peerDependencies ?? {})])
    const development = new Set(Object.keys(manifest.devDependencies ?? {}))
    const [byShipped, byOthers] = [imported(true), imported(false)]
    for (const set of [byShipped, byOthers]) set.delete(manifest.name)
    for (const name of bundled[folder] ?? []) if (byShipped.delete(name)) byOthers.add(name)
    for (const name of loadedByName[folder] ?? []) byShipped.add(name)
    const known = new Set([...runtime, ...development])
    const missing = [
      ...[...byShipped].filter((name) => !runtime.has(name)).map((name) => `${path} imports ${name} but does not name it in dependencies`),
      ...[...byOthers].filter((name) => !known.has(name)).map((name) => `${path} imports ${name} in tests or scripts but does not name it`),
    ]
    // Private workspaces name all that their programs may come to need, and so are run again when it changes.
    if (kind === "private") return missing
    return [
      ...missing,
      ...[...runtime].filter((name) => !byShipped.has(name)).map((name) => `${path} names ${name} in dependencies but no published file imports it`),
      ...[...development]
        .filter((name) => !byOthers.has(name) && !name.startsWith("@types/"))
        .map((name) => `${path} names ${name} in devDependencies but no test or script imports it`),
    ]
  })
}

/** Other people's code in the packages that plugin authors depend on. */
export function heavyAuthorPackages(workspaces: readonly Workspace[]): readonly string[] {
  return workspaces.flatMap(({ path, folder, kind, files }) => {
    const allowed = kind === "package" ? authorFacing[folder] : undefined
    if (allowed === undefined) return []
    return files
      .filter(({ shipped }) => shipped)
      .flatMap((file) =>
        file.imports.flatMap(({ specifier, typeOnly }) => {
          const name = packageOf(specifier)
          if (name === undefined || name.startsWith("@cohort/") || (typeOnly && allowed.includes(name))) return []
          return [`${path}/${file.path} imports ${name}${allowed.includes(name) ? " as a value: types only" : ""}`]
        }),
      )
  })
}
