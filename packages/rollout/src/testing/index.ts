export * from "./harness.ts"
export * from "./plain-tokenizer.ts"
export * from "./simulated-server.ts"
export * from "./virtual-clock.ts"
