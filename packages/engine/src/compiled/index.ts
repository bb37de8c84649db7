export { createCompiledRunner, type CompiledRunnerOptions } from "./create-runner.ts"
export { openRunner, type OpenRunnerOptions } from "./open-runner.ts"
export { spawnRunner, type SpawnRunnerOptions } from "./spawn.ts"
