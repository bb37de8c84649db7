export * from "./host.ts"
export * from "./port.ts"
export * from "./proxy.ts"
