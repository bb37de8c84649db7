export type { HubClient, HubLoadOptions, HubProgress, HubRepo, HubSnapshot, RepoKind } from "./client.ts"
export { createHubClient } from "./create-client.ts"
export { parseHubName } from "./name.ts"
export { hubSettings, type HubSettings } from "./settings.ts"
