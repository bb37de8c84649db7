export * from "./protocol.ts"
