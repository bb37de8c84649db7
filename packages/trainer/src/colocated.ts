// Colocated inference: the engine computes in the trainer's thread, on the trainer's own weights. Nothing is copied at a sync; generation
// and training take turns, so that every token has one version.
import { createEngine, embeddedServer, type Engine, openEngineTokenizer } from "@cohort/engine"
import { CohortError } from "@cohort/errors"
import { serverPool } from "@cohort/inference"
import type { WeightTransfer } from "@cohort/weight-transfer"
import type { SpawnedBackend } from "./embedded/spawn.ts"
import { modelName, type Servers } from "./servers.ts"

export interface Colocated {
  readonly servers: Servers
  readonly transfer: WeightTransfer
  /** Runs `body`, which changes the weights, while nothing is generated. */
  exclusively<T>(body: () => Promise<T>): Promise<T>
}

export interface ColocatedOptions {
  readonly backend: SpawnedBackend
  readonly modelFolder: string
  readonly slots: number
  readonly maxModelLength?: number
  readonly version: number
  readonly onWarning: (message: string) => void
}

/** Opens an engine over the backend's resident policy. @throws CohortError `runtime_unavailable` on a fallback backend */
export async function openColocated(options: ColocatedOptions): Promise<Colocated> {
  const runner = await options.backend.openRunner({ slots: options.slots, ...(options.maxModelLength === undefined ? {} : { maxModelLength: options.maxModelLength }) })
  const engine = createEngine({
    runner,
    tokenizer: openEngineTokenizer(options.modelFolder, runner.info.vocabSize),
    modelName,
    modelFolder: options.modelFolder,
    now: Date.now,
    random: Math.random,
    version: options.version,
  })
  const server = { ...embeddedServer(engine), name: "the colocated engine" }
  return {
    servers: {
      pool: serverPool([server], { now: () => performance.now(), onChange: options.onWarning }),
      dtype: undefined,
      pids: () => [],
      watchRevival: () => () => Promise.resolve(false),
      close: () => engine.close(),
    },
    transfer: labelTransfer(engine),
    async exclusively(body) {
      // Caches hold keys and values of the old weights: what runs is prefilled again afterwards.
      await engine.pause("keep", true)
      try {
        return await body()
      } finally {
        engine.resume()
      }
    },
  }
}

/** The weights are there already; a push only names them. */
function labelTransfer(engine: Engine): WeightTransfer {
  return {
    async init() {},
    async push(version) {
      if (!engine.isPaused) throw new CohortError("internal", "a colocated push outside of an exclusive update")
      engine.setVersion(version)
      return { version, bytes: 0, seconds: 0, pausedSeconds: 0, servers: [{ name: "the colocated engine", ok: true, seconds: 0 }] }
    },
    async close() {},
  }
}
