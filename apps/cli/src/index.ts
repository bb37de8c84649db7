export { runCli } from "./cli.ts"
export { type Output, type Shell, type SignalName } from "./shell.ts"
export { systemShell } from "./system-shell.ts"
