// Where runtimes lie on disk, and the manifest that marks a folder as complete.
import { messageOf } from "@cohort/errors"
import { readFileSync, statSync } from "node:fs"
import { basename, isAbsolute, join, resolve } from "node:path"
import type { Environment } from "./host.ts"
import { runtimeName, type RuntimePin } from "./pins.ts"

/** `manifest.json` of an installed runtime; written last, so its presence says that the rest is there. */
export interface RuntimeManifest {
  readonly format: 1
  readonly kind: string
  readonly package: string
  readonly version: string
  readonly platform: string
  readonly wheel: { readonly bytes: number; readonly sha256: string }
  readonly files: readonly { readonly name: string; readonly bytes: number }[]
}

/** Cohort's cache folder: `COHORT_CACHE`, else `$XDG_CACHE_HOME/cohort`, else `~/.cache/cohort`. */
export function cacheFolder(env: Environment, home: string): string {
  if (env.COHORT_CACHE) return resolve(env.COHORT_CACHE)
  // The XDG specification says to ignore a relative path.
  if (env.XDG_CACHE_HOME && isAbsolute(env.XDG_CACHE_HOME)) return join(env.XDG_CACHE_HOME, "cohort")
  return join(env.HOME || home, ".cache", "cohort")
}

export function runtimeFolder(cacheDir: string, pin: RuntimePin): string {
  return join(cacheDir, "runtime", runtimeName(pin))
}

export function manifestOf(pin: RuntimePin): RuntimeManifest {
  return {
    format: 1,
    kind: pin.kind,
    package: pin.package,
    version: pin.version,
    platform: pin.platform,
    wheel: { bytes: pin.wheel.bytes, sha256: pin.wheel.sha256 },
    files: pin.files.map((file) => ({ name: basename(file.entry), bytes: file.bytes })),
  }
}

/**
 * Says why `folder` is not a complete installation of `pin`, or undefined when it is one. Looks at the manifest and at the
 * file sizes; contents were checked against the wheel's hash when they were unpacked.
 */
export function folderFault(folder: string, pin: RuntimePin): string | undefined {
  if (sizeOf(folder) === undefined) return `${folder} does not exist`
  const manifest = manifestOf(pin)
  try {
    const found: unknown = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"))
    if (JSON.stringify(found) !== JSON.stringify(manifest)) return `${folder}/manifest.json describes another runtime`
  } catch (error) {
    return `${folder}/manifest.json cannot be read (${messageOf(error)})`
  }
  for (const { name, bytes } of manifest.files) {
    const size = sizeOf(join(folder, name))
    if (size === undefined) return `${folder}/${name} is missing`
    if (size !== bytes) return `${folder}/${name} has ${size} bytes, not ${bytes}`
  }
  return undefined
}

/** Undefined where nothing can be reached under that path. */
function sizeOf(path: string): number | undefined {
  try {
    return statSync(path).size
  } catch {
    return undefined
  }
}
