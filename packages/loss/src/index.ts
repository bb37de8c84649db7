export * from "./objective.ts"
