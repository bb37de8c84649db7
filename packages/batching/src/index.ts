export * from "./sample.ts"
