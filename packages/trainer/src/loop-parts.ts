// The loop without the composition root: for programs that bring their own backend, worker and transfer.
export * from "./backend.ts"
export * from "./loop.ts"
export * from "./resume-cursor.ts"
export * from "./run.ts"
export * from "./watch/account.ts"
export * from "./watch/watch.ts"
export * from "./window.ts"
