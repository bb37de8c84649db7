// Opens the runtime that a user gets without saying anything: the installed library, else a fresh installation, else a slower backend
// with the reason.
import { CohortError, isCohortError } from "@cohort/errors"
import { mkdirSync } from "node:fs"
import { ensureRuntime, type InstallProgress } from "./install/install.ts"
import { findRuntime, type FoundRuntime } from "./install/find.ts"
import { cacheFolder } from "./install/folders.ts"
import { type Environment, type Host, systemHost } from "./install/host.ts"
import { openRuntime, type OpenOptions } from "./open.ts"
import type { BackendName, TensorRuntime } from "./runtime.ts"
import { pruneXlaCache, xlaCacheFolder } from "./xla-cache.ts"

export interface DefaultOptions {
  readonly env: Environment
  readonly signal: AbortSignal
  /** `auto` by default. `COHORT_TENSOR_BACKEND` in `env` goes before it. */
  readonly backend?: "auto" | BackendName
  /** Threads of one op; default all cores. */
  readonly threads?: number
  /** False: only an installed library is used, nothing is fetched. */
  readonly allowInstall?: boolean
  readonly onProgress?: (progress: InstallProgress) => void
  readonly host?: Host
}

const backends: readonly string[] = ["auto", "tensorflow", "wasm", "cpu"]

/**
 * Finds out how to open the fastest runtime that this machine can have, installing TensorFlow into the cache folder first where it
 * can be installed. The result is plain data: several threads and processes open the same runtime from it.
 *
 * @throws CohortError `runtime_unavailable` when `COHORT_LIBTENSORFLOW` names no library, `config_invalid` when
 * `COHORT_TENSOR_BACKEND` names no backend, `aborted` when the signal ends an installation
 * @example
 * const open = await defaultOpenOptions({ env: process.env, signal })
 * new Worker("trainer.ts").postMessage(open) // there: await openRuntime(open)
 */
export async function defaultOpenOptions(options: DefaultOptions): Promise<OpenOptions> {
  const { env, threads, host = systemHost() } = options
  const forced = env.COHORT_TENSOR_BACKEND
  if (forced && !backends.includes(forced))
    throw new CohortError("config_invalid", `COHORT_TENSOR_BACKEND is "${forced}"`, { hint: `It can be ${backends.join(", ")}.` })
  const backend = (forced || options.backend) as "auto" | BackendName | undefined ?? "auto"
  if (backend === "wasm" || backend === "cpu")
    return { backend, threads, because: forced ? `COHORT_TENSOR_BACKEND asks for ${backend}.` : `The settings ask for ${backend}.` }
  const found = await locate(options, host)
  if ("reason" in found) return { backend, threads, libraryMissing: found }
  // A library that the user named is used or the error is shown, as in locate().
  const strict = found.source === "COHORT_LIBTENSORFLOW" ? "tensorflow" : backend
  pruneXlaCache(cacheFolder(env, host.home), host.now())
  return { backend: strict, threads, libraryPath: found.libraryPath, xlaCacheDir: usableCache(xlaCacheFolder(cacheFolder(env, host.home), found)) }
}

/**
 * Opens the fastest runtime that this machine can have; `runtime.info.because` is the sentence to show when that is not TensorFlow.
 *
 * @throws CohortError as {@link defaultOpenOptions}, and `runtime_unavailable` when the backend asked for by name does not work
 * @example
 * const runtime = await openDefaultRuntime({ env: process.env, signal, onProgress: ({ message }) => console.error(message) })
 */
export async function openDefaultRuntime(options: DefaultOptions): Promise<TensorRuntime> {
  return openRuntime(await defaultOpenOptions(options))
}

type Missing = { readonly reason: string; readonly hint: string }

async function locate({ env, signal, allowInstall = true, onProgress }: DefaultOptions, host: Host): Promise<FoundRuntime | Missing> {
  const lookup = findRuntime({ env, host })
  if (lookup.status === "found") return lookup.runtime
  // A library that the user named is never replaced by another.
  if (lookup.status === "broken") throw new CohortError("runtime_unavailable", lookup.reason, { hint: lookup.hint })
  if (lookup.status === "unsupported" || !allowInstall) return lookup
  try {
    return await ensureRuntime({ env, host, signal, ...(onProgress === undefined ? {} : { onProgress }) })
  } catch (error) {
    if (signal.aborted || !isCohortError(error)) throw error
    return { reason: error.message, hint: error.hint ?? lookup.hint }
  }
}

/** The folder, made; undefined where it cannot be: compiling works without. */
function usableCache(folder: string): string | undefined {
  try {
    mkdirSync(folder, { recursive: true })
    return folder
  } catch {
    return undefined
  }
}
