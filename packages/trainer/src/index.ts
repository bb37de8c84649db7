export * from "./backend.ts"
