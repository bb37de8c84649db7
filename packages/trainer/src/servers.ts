// The inference side of a run: servers that the user started, or an embedded engine process that is started here and started again
// when it dies.
import { CohortError, messageOf } from "@cohort/errors"
import { type EngineProcess, type HostOptions, spawnEngineProcess } from "@cohort/engine/process"
import { type InferenceServer, inferenceServer, type ServerPool, serverPool } from "@cohort/inference"
import type { RunConfig } from "@cohort/config"

export interface Servers {
  readonly pool: ServerPool
  /** What the servers compute in where that is known. */
  readonly dtype: "f32" | "bf16" | undefined
  /** Process ids of engines started here. */
  pids(): readonly number[]
  /** Call before a use. Should the use fail, the result tells whether the engine had died and is back: then it is worth another try. */
  watchRevival(): () => Promise<boolean>
  close(): Promise<void>
}

export interface ServersOptions {
  readonly config: RunConfig
  readonly env: Readonly<Record<string, string | undefined>>
  /** How an embedded engine is started; absent with servers of the user's own. */
  readonly engine?: Omit<HostOptions, "port">
  readonly logPath: string
  readonly startVersion: number
  readonly signal: AbortSignal
  readonly onWarning: (message: string) => void
}

/** Starts of a dying engine within one run before the run gives up. */
const maxRestarts = 3
const deathNoticeMs = 1_000
export const modelName = "policy"

/**
 * Opens the servers of a run.
 * @throws CohortError `config_invalid` for an API key variable that is not set, and what starting the engine throws
 */
export async function openServers(options: ServersOptions): Promise<Servers> {
  const { config, onWarning } = options
  if (options.engine !== undefined) return superviseEngine(options, options.engine)
  const servers = config.inference.urls.map((url) => client(options, url, config.inference.kind))
  return {
    pool: serverPool(servers, { now: () => performance.now(), onChange: onWarning }),
    dtype: undefined,
    pids: () => [],
    watchRevival: () => () => Promise.resolve(false),
    close: async () => void (await Promise.allSettled(servers.map((server) => server.close()))),
  }
}

function client(options: ServersOptions, url: string, kind: RunConfig["inference"]["kind"]): InferenceServer {
  const { config, env } = options
  const { apiKeyEnv } = config.inference
  const apiKey = apiKeyEnv === undefined ? undefined : env[apiKeyEnv]
  if (apiKeyEnv !== undefined && !apiKey)
    throw new CohortError("config_invalid", `inference.apiKeyEnv names ${apiKeyEnv}, which is not set`, { hint: `Set ${apiKeyEnv}, or remove inference.apiKeyEnv.` })
  return inferenceServer({
    kind,
    url,
    model: modelName,
    name: url,
    requestTimeoutMs: config.inference.requestTimeoutMs,
    loadTimeoutMs: config.transfer.timeoutMs,
    clearCacheOnPause: config.transfer.clearCache,
    initialVersion: options.startVersion,
    retry: { attempts: 2, firstDelayMs: 200, maxDelayMs: 5_000 },
    ...(apiKey === undefined ? {} : { apiKey }),
  })
}

async function superviseEngine(options: ServersOptions, engine: Omit<HostOptions, "port">): Promise<Servers> {
  const { config, onWarning, logPath, signal } = options
  const start = (port: number, stop: AbortSignal): Promise<EngineProcess> =>
    spawnEngineProcess({ ...engine, port }, { logPath, startTimeoutMs: config.inference.startTimeoutMs, signal: stop })
  let current = await start(0, signal)
  const closed = new AbortController()
  let revival = Promise.withResolvers<boolean>()
  let restarts = 0
  // The same port each time: to the pool it is a server that was away, and gets the weights it missed before it serves again.
  const { port, url } = current
  const watch = async (): Promise<void> => {
    for (;;) {
      const code = await current.exited
      if (closed.signal.aborted) return revival.resolve(false)
      restarts++
      if (restarts > maxRestarts) {
        onWarning(`the engine process ended with ${code} after ${maxRestarts} restarts; it is not started again`)
        return revival.resolve(false)
      }
      onWarning(`the engine process ended with ${code}; starting it again (${restarts} of ${maxRestarts})`)
      try {
        current = await start(port, closed.signal)
      } catch (error) {
        if (!closed.signal.aborted) onWarning(`the engine process did not start again: ${messageOf(error)}`)
        return revival.resolve(false)
      }
      // Closed in the very moment that it came up: nobody else would end it.
      if (closed.signal.aborted) await current.stop()
      revival.resolve(!closed.signal.aborted)
      revival = Promise.withResolvers()
    }
  }
  const watching = watch()
  const server = client(options, url, "embedded")
  return {
    pool: serverPool([server], { now: () => performance.now(), onChange: onWarning, patienceMs: config.rollout.generateTimeoutMs }),
    dtype: current.dtype,
    pids: () => [current.pid],
    watchRevival() {
      const { exited } = current
      const back = revival.promise
      // A connection that breaks is seen before the end of the process that broke it.
      return async () => (await Promise.race([exited.then(() => true), Bun.sleep(deathNoticeMs).then(() => false)])) && back
    },
    async close() {
      closed.abort()
      await server.close()
      await current.stop()
      await watching
    },
  }
}
