// Where the hub and its cache are, from the variables that the Python libraries read.
import { homedir } from "node:os"
import { join } from "node:path"

export interface HubSettings {
  readonly token?: string
  readonly endpoint?: string
  readonly cacheDir: string
  /** Use only what is in the cache. */
  readonly offline: boolean
}

/**
 * Reads HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, and for the cache HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME.
 * @example const hub = createHubClient(hubSettings(process.env))
 */
export function hubSettings(env: Readonly<Record<string, string | undefined>>): HubSettings {
  const { HF_TOKEN: token, HF_ENDPOINT: endpoint, HF_HUB_OFFLINE: offline } = env
  const home = env["HF_HOME"] || join(env["XDG_CACHE_HOME"] || join(env["HOME"] || homedir(), ".cache"), "huggingface")
  return {
    ...(token && { token }),
    ...(endpoint && { endpoint: endpoint.replace(/\/+$/, "") }),
    cacheDir: env["HF_HUB_CACHE"] || env["HUGGINGFACE_HUB_CACHE"] || join(home, "hub"),
    offline: ["1", "true", "yes", "on"].includes(offline?.toLowerCase() ?? ""),
  }
}
