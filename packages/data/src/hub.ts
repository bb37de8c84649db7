// Datasets of the Hugging Face hub: only the files of the wanted split are fetched, into the cache that Python shares.
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"

/** What is needed of a hub; replace it to load from elsewhere. */
export interface HubClient {
  /** Paths of all files of a dataset repository. */
  list(repo: string, revision: string, signal?: AbortSignal): Promise<readonly string[]>
  /** Path of a local copy of one file. */
  download(repo: string, path: string, revision: string, signal?: AbortSignal): Promise<string>
}

export interface HubSettings {
  readonly token?: string
  readonly endpoint?: string
  readonly cacheDir?: string
  /** Use only what is in the cache. */
  readonly offline?: boolean
}

/** Reads the variables that the Python libraries read: HF_TOKEN, HF_ENDPOINT, HF_HUB_CACHE, HF_HUB_OFFLINE. */
export function hubSettings(env: Readonly<Record<string, string | undefined>>): HubSettings {
  const { HF_TOKEN: token, HF_ENDPOINT: endpoint, HF_HUB_CACHE: cacheDir, HF_HUB_OFFLINE: offline } = env
  return {
    ...(token && { token }),
    ...(endpoint && { endpoint }),
    ...(cacheDir && { cacheDir }),
    offline: ["1", "true", "yes", "on"].includes(offline?.toLowerCase() ?? ""),
  }
}

/**
 * A client of the hub, or of its cache when `offline`. The library is loaded on first use.
 *
 * @throws CohortError `dataset_invalid` from its methods when the hub refuses or cannot be reached
 * @example const hub = createHubClient(hubSettings(process.env))
 */
export function createHubClient(settings: HubSettings = {}): HubClient {
  return settings.offline === true ? cacheClient(settings) : onlineClient(settings)
}

function onlineClient({ token, endpoint, cacheDir }: HubSettings): HubClient {
  const common = (repo: string, revision: string, signal: AbortSignal | undefined) => ({
    repo: { type: "dataset", name: repo } as const,
    revision,
    fetch: Object.assign((input: string | URL | Request, init?: RequestInit) => fetch(input, { ...init, ...(signal && { signal }) }), {
      preconnect: fetch.preconnect,
    }),
    ...(endpoint !== undefined && { hubUrl: endpoint }),
    ...(token !== undefined && { accessToken: token }),
  })
  return {
    async list(repo, revision, signal) {
      const { listFiles } = await import("@huggingface/hub")
      try {
        return (await Array.fromAsync(listFiles({ ...common(repo, revision, signal), recursive: true })))
          .filter((entry) => entry.type === "file")
          .map((entry) => entry.path)
      } catch (error) {
        throw unreachable(error, repo)
      }
    },
    async download(repo, path, revision, signal) {
      const { downloadFileToCacheDir } = await import("@huggingface/hub")
      try {
        return await downloadFileToCacheDir({ ...common(repo, revision, signal), path, ...(cacheDir !== undefined && { cacheDir }) })
      } catch (error) {
        throw unreachable(error, `${repo}/${path}`)
      }
    },
  }
}

// Layout of the cache: datasets--org--name/{refs/<revision>, snapshots/<commit>/...}.
function cacheClient({ cacheDir }: HubSettings): HubClient {
  const snapshot = async (repo: string, revision: string): Promise<string> => {
    const root = cacheDir ?? (await import("@huggingface/hub")).getHFHubCachePath()
    const folder = join(root, `datasets--${repo.replaceAll("/", "--")}`)
    const ref = join(folder, "refs", revision)
    const found = join(folder, "snapshots", existsSync(ref) ? readFileSync(ref, "utf8").trim() : revision)
    if (existsSync(found)) return found
    throw new CohortError("dataset_invalid", `dataset ${repo} at ${revision} is not in the cache, and HF_HUB_OFFLINE is set`, {
      hint: "Load it once with the network, or give the path of a local copy.",
      details: { repo, revision, folder },
    })
  }
  return {
    list: async (repo, revision) => {
      const root = await snapshot(repo, revision)
      return readdirSync(root, { recursive: true, encoding: "utf8" }).map((path) => path.replaceAll("\\", "/"))
    },
    download: async (repo, path, revision) => join(await snapshot(repo, revision), path),
  }
}

function unreachable(error: unknown, what: string): CohortError {
  const typed = toCohortError(error, "dataset_invalid", `dataset ${what}`)
  if (typed.code !== "dataset_invalid") return typed
  return new CohortError("dataset_invalid", typed.message, {
    hint: "Check the name, HF_TOKEN for a private dataset, and the network; or give the path of a local copy.",
    cause: error,
  })
}
