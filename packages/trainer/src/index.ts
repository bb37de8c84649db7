export * from "./backend.ts"
export * from "./run.ts"
export { createRun } from "./create-run.ts"
export { stepMetricDefinitions } from "./step-metrics.ts"
