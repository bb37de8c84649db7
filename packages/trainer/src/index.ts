export * from "./backend.ts"
export * from "./run.ts"
