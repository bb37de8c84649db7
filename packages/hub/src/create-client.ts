// The client for a set of settings: of the hub, or of its cache alone.
import { cacheClient } from "./cache.ts"
import type { HubClient } from "./client.ts"
import { onlineClient } from "./online.ts"
import type { HubSettings } from "./settings.ts"

/**
 * A client of the hub, or of its cache where `offline` is set. The hub's library is loaded on first use.
 *
 * @example
 * const hub = createHubClient(hubSettings(process.env))
 * const snapshot = await hub.open({ kind: "model", name: "Qwen/Qwen3-0.6B", revision: "main" })
 * const folder = await snapshot.load(["config.json", "model.safetensors"])
 */
export function createHubClient(settings: HubSettings): HubClient {
  return settings.offline ? cacheClient(settings.cacheDir) : onlineClient(settings)
}
