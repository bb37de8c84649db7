// Adapters of one vLLM server: loaded while it runs, one name per version, so that a request stays on the version it was started on.
import { CohortError, isCohortError } from "@cohort/errors"
import { statusOf, type Call } from "./http.ts"
import type { ServerWeights } from "./protocol.ts"

export interface AdapterOptions {
  /** Name of the server in messages. */
  readonly name: string
  /** Name of the weights without an adapter. */
  readonly model: string
  readonly post: (path: string, body: unknown) => Promise<unknown>
  readonly pathOnServer: (path: string) => string
}

export interface Adapters {
  /** What new requests name as their model. */
  readonly served: string
  /** Counts a request on what is served now, until `close`. */
  open(): { readonly model: string; close(): void }
  /** @throws CohortError `inference_rejected` when the server refuses it; what was served stays */
  load(weights: ServerWeights & { readonly adapter: string }): Promise<void>
  /** False while requests run on it. Where it is served, the weights without it are from now on. */
  unload(adapter: string): Promise<boolean>
}

const loadPath: Call["path"] = "/v1/load_lora_adapter"
const unloadPath: Call["path"] = "/v1/unload_lora_adapter"

/** Bookkeeping of the adapters that this client loaded. */
export function vllmAdapters({ name, model, post, pathOnServer }: AdapterOptions): Adapters {
  const users = new Map<string, number>()
  let served = model
  return {
    get served() {
      return served
    },
    open() {
      const mine = served
      users.set(mine, (users.get(mine) ?? 0) + 1)
      return { model: mine, close: () => void users.set(mine, users.get(mine)! - 1) }
    },
    async load({ adapter, path, version }) {
      try {
        await post(loadPath, { lora_name: adapter, lora_path: pathOnServer(path) })
      } catch (error) {
        // A name stands for one content, so one that is there already is what was asked for.
        if (!saysLoaded(error)) throw refusal(error, `${name} did not take adapter ${adapter} of version ${version}`)
      }
      served = adapter
    },
    async unload(adapter) {
      if ((users.get(adapter) ?? 0) > 0) return false
      users.delete(adapter)
      if (served === adapter) served = model
      try {
        await post(unloadPath, { lora_name: adapter })
      } catch (error) {
        // A server that was started again has forgotten it by itself.
        if (statusOf(error) !== 404) throw error
      }
      return true
    },
  }
}

function saysLoaded(error: unknown): boolean {
  return statusOf(error) === 400 && error instanceof Error && error.message.includes("has already been loaded")
}

function refusal(error: unknown, what: string): unknown {
  if (!isCohortError(error) || error.code !== "inference_rejected") return error
  return new CohortError("inference_rejected", `${what}: ${error.message}`, {
    hint: "Start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, --enable-lora, --max-lora-rank of at least model.lora.rank and --max-loras above staleness.maxSteps + 1, and let it see transfer.dir.",
    ...(error.details === undefined ? {} : { details: error.details }),
    cause: error,
  })
}
