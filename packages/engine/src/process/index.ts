export { hostEngine, type HostedEngine, type HostOptions } from "./host.ts"
export { spawnEngineProcess, type EngineProcess, type SpawnOptions } from "./spawn.ts"
