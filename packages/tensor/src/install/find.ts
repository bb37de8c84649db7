// Finds an installed tensor runtime without touching the network.
import { messageOf } from "@cohort/errors"
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { cacheFolder, folderFault, runtimeFolder } from "./folders.ts"
import { systemHost, type Environment, type Host } from "./host.ts"
import { pins as knownPins, runtimeName, unpackedBytes, type RuntimeKind, type RuntimePin } from "./pins.ts"

export interface FoundRuntime {
  /** The library to open; the libraries it links to lie beside it. */
  readonly libraryPath: string
  /** Version of TensorFlow, or `unknown` for a library of the user's own. */
  readonly version: string
  readonly source: "COHORT_LIBTENSORFLOW" | "cache"
  /** Undefined for a library of the user's own. */
  readonly kind: RuntimeKind | undefined
}

/** Found, or why not: `absent` can be installed, `broken` and `unsupported` need the user. */
export type RuntimeLookup =
  | { readonly status: "found"; readonly runtime: FoundRuntime }
  | { readonly status: "absent" | "broken" | "unsupported"; readonly reason: string; readonly hint: string }

export interface FindOptions {
  readonly env: Environment
  /** Cohort's cache folder; by default from `COHORT_CACHE`, `XDG_CACHE_HOME` or the home folder. */
  readonly cacheDir?: string
  /** Only this kind; by default a `gpu` runtime where one is installed, else `cpu`. */
  readonly kind?: RuntimeKind
  readonly host?: Host
  readonly pins?: readonly RuntimePin[]
}

/**
 * The runtime to load. `COHORT_LIBTENSORFLOW` (a library, or a folder with one) comes first and never falls back to the
 * cache, since a user who names a library wants that one.
 *
 * @example
 * const lookup = findRuntime({ env: process.env })
 * if (lookup.status === "found") dlopen(lookup.runtime.libraryPath, symbols)
 */
export function findRuntime(options: FindOptions): RuntimeLookup {
  const { env, host = systemHost(), pins = knownPins } = options
  if (env.COHORT_LIBTENSORFLOW) return findOverride(env.COHORT_LIBTENSORFLOW)
  const fault = platformFault(host, pins, options.kind)
  if (fault !== undefined) return { status: "unsupported", ...fault }
  const cacheDir = options.cacheDir ?? cacheFolder(env, host.home)
  const reasons: string[] = []
  for (const kind of options.kind === undefined ? (["gpu", "cpu"] as const) : [options.kind]) {
    const pin = findPin(pins, host.platform, kind)
    if (pin === undefined) continue
    const folder = runtimeFolder(cacheDir, pin)
    const reason = folderFault(folder, pin)
    if (reason === undefined) {
      const libraryPath = join(folder, basename(pin.files[0].entry))
      return { status: "found", runtime: { libraryPath, version: pin.version, source: "cache", kind } }
    }
    reasons.push(reason)
  }
  return {
    status: "absent",
    reason: `the tensor runtime is not installed (${reasons.join("; ")})`,
    hint: "Install it with: cohort runtime install",
  }
}

export function findPin(pins: readonly RuntimePin[], platform: string, kind: RuntimeKind): RuntimePin | undefined {
  return pins.find((pin) => pin.platform === platform && pin.kind === kind)
}

/** Why no pinned runtime runs on this machine; undefined when one does. */
export function platformFault(
  host: Host,
  pins: readonly RuntimePin[],
  kind?: RuntimeKind,
): { readonly reason: string; readonly hint: string } | undefined {
  const fitting = pins.filter((pin) => pin.platform === host.platform && (kind === undefined || pin.kind === kind))
  const [pin] = fitting
  if (pin === undefined) {
    const supported = [...new Set(pins.map((each) => `${each.platform} (${each.kind})`))].join(", ")
    return {
      reason: `there is no tensor runtime for ${host.platform}${kind === undefined ? "" : ` of kind ${kind}`}; supported are ${supported}`,
      hint: "Set COHORT_LIBTENSORFLOW to a libtensorflow_cc.so.2 built for this machine, or run in a Linux container with glibc.",
    }
  }
  const needed = /manylinux_(\d+)_(\d+)_/.exec(pin.wheel.platformTag)
  const present = /^(\d+)\.(\d+)/.exec(host.glibc ?? "")
  if (needed === null || present === null) return undefined
  const older = Number(present[1]) - Number(needed[1]) || Number(present[2]) - Number(needed[2])
  if (older >= 0) return undefined
  return {
    reason: `the tensor runtime needs glibc ${needed[1]}.${needed[2]} and this system has ${host.glibc}`,
    hint: "Use a newer Linux distribution or a container, or set COHORT_LIBTENSORFLOW to a library built for this system.",
  }
}

const libraryNames = ["libtensorflow_cc.so.2", "libtensorflow.so.2"]
const frameworkName = "libtensorflow_framework.so.2"

function findOverride(value: string): RuntimeLookup {
  const named = resolve(value)
  if (!existsSync(named)) return brokenOverride(`names ${named}, which does not exist`)
  try {
    const isFolder = statSync(named).isDirectory()
    const libraryPath = isFolder ? libraryNames.map((name) => join(named, name)).find((path) => existsSync(path)) : named
    if (libraryPath === undefined) return brokenOverride(`names the folder ${named}, which holds neither ${libraryNames.join(" nor ")}`)
    if (!isElf(libraryPath)) return brokenOverride(`names ${libraryPath}, which is not a shared library`)
    if (!existsSync(join(dirname(libraryPath), frameworkName)))
      return brokenOverride(`names ${libraryPath}, which needs ${frameworkName} beside it`)
    return { status: "found", runtime: { libraryPath, version: "unknown", source: "COHORT_LIBTENSORFLOW", kind: undefined } }
  } catch (error) {
    return brokenOverride(`names ${named}, which cannot be read (${messageOf(error)})`)
  }
}

function brokenOverride(what: string): RuntimeLookup {
  return {
    status: "broken",
    reason: `COHORT_LIBTENSORFLOW ${what}`,
    hint: `Let it name libtensorflow_cc.so.2 with ${frameworkName} beside it, or unset it to use the installed runtime.`,
  }
}

function isElf(path: string): boolean {
  const file = openSync(path, "r")
  try {
    const magic = Buffer.alloc(4)
    return readSync(file, magic, 0, 4, 0) === 4 && magic.toString("latin1") === "\x7fELF"
  } finally {
    closeSync(file)
  }
}

/** What `cohort runtime info` shows. */
export interface RuntimeInfo {
  readonly platform: string
  readonly glibc: string | undefined
  readonly cacheDir: string
  /** Value of `COHORT_LIBTENSORFLOW`. */
  readonly override: string | undefined
  readonly lookup: RuntimeLookup
  /** The runtimes that exist for this platform. */
  readonly available: readonly {
    readonly name: string
    readonly kind: RuntimeKind
    readonly version: string
    readonly folder: string
    readonly installed: boolean
    readonly wheelBytes: number
    readonly unpackedBytes: number
  }[]
}

/** Facts about installed and installable runtimes; reads a few files, never the network. */
export function runtimeInfo(options: FindOptions): RuntimeInfo {
  const { env, host = systemHost(), pins = knownPins } = options
  const cacheDir = options.cacheDir ?? cacheFolder(env, host.home)
  return {
    platform: host.platform,
    glibc: host.glibc,
    cacheDir,
    override: env.COHORT_LIBTENSORFLOW || undefined,
    lookup: findRuntime(options),
    available: pins
      .filter((pin) => pin.platform === host.platform)
      .map((pin) => ({
        name: runtimeName(pin),
        kind: pin.kind,
        version: pin.version,
        folder: runtimeFolder(cacheDir, pin),
        installed: folderFault(runtimeFolder(cacheDir, pin), pin) === undefined,
        wheelBytes: pin.wheel.bytes,
        unpackedBytes: unpackedBytes(pin),
      })),
  }
}
