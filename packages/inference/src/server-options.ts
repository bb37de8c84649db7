// Options that every kind of server shares, with their defaults in one place.
import { CohortError } from "@cohort/errors"
import { defaultRetry, type RetryPolicy } from "./backoff.ts"
import { systemClock, type Clock } from "./clock.ts"
import type { Fetch } from "./http.ts"
import { readWeightNames, type ReadWeightNames } from "./weights-folder.ts"

export interface ServerOptions {
  /** Address without a path: `http://127.0.0.1:8000`. */
  readonly url: string
  /** Name the server serves the policy under. */
  readonly model: string
  /** Shown in messages and reports; the address when absent. */
  readonly name?: string
  readonly apiKey?: string
  /** One generation with all its tries, ms; time that the server stands paused does not count. 600,000 when absent. */
  readonly requestTimeoutMs?: number
  /** Pause, resume and other control calls, ms. 60,000 when absent. */
  readonly controlTimeoutMs?: number
  /** Reading a weights folder, ms. 1,800,000 when absent. */
  readonly loadTimeoutMs?: number
  /** One look at health, ms. 5,000 when absent. */
  readonly healthTimeoutMs?: number
  /** Tries of a generation. A pool wants few, so that another server takes over soon. */
  readonly retry?: Partial<RetryPolicy>
  /** Policy version of the weights the server was started with. 0 when absent. */
  readonly initialVersion?: number
  /** Turns a folder here into the path the server sees it at; the same path when absent. */
  readonly pathOnServer?: (path: string) => string
  /** Reads the tensor names of a folder; from the files' headers when absent. */
  readonly readNames?: ReadWeightNames
  readonly fetch?: Fetch
  readonly clock?: Clock
  readonly random?: () => number
}

export interface ResolvedOptions {
  readonly url: string
  readonly model: string
  readonly name: string
  readonly apiKey: string | undefined
  readonly requestTimeoutMs: number
  readonly controlTimeoutMs: number
  readonly loadTimeoutMs: number
  readonly healthTimeoutMs: number
  readonly retry: RetryPolicy
  readonly controlRetry: RetryPolicy
  readonly initialVersion: number
  readonly pathOnServer: (path: string) => string
  readonly readNames: ReadWeightNames
  readonly fetch: Fetch
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Fills in the defaults.
 * @throws CohortError `config_invalid` for an address that is no http address
 */
export function resolveOptions(options: ServerOptions): ResolvedOptions {
  const url = options.url.replace(/\/+$/, "")
  if (!/^https?:\/\/[^/]+/.test(url))
    throw new CohortError("config_invalid", `inference server url is '${options.url}'`, { hint: "Write it like http://127.0.0.1:8000.", details: { field: "url" } })
  const retry: RetryPolicy = { ...defaultRetry, ...options.retry }
  return {
    url,
    model: options.model,
    name: options.name ?? url.replace(/^https?:\/\//, ""),
    apiKey: options.apiKey,
    requestTimeoutMs: options.requestTimeoutMs ?? 600_000,
    controlTimeoutMs: options.controlTimeoutMs ?? 60_000,
    loadTimeoutMs: options.loadTimeoutMs ?? 1_800_000,
    healthTimeoutMs: options.healthTimeoutMs ?? 5_000,
    retry,
    controlRetry: { ...retry, attempts: Math.min(3, retry.attempts) },
    initialVersion: options.initialVersion ?? 0,
    pathOnServer: options.pathOnServer ?? ((path) => path),
    readNames: options.readNames ?? readWeightNames,
    fetch: options.fetch ?? fetch,
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
  }
}
