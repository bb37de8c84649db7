#!/usr/bin/env bun
// The `cohort` command.
import { runCli } from "./cli.ts"
import { systemShell } from "./system-shell.ts"

const shell = systemShell()
const exitCode = await runCli(process.argv.slice(2), shell)
await shell.flush()
// Not only `exitCode`: a thread that did not close must not keep the terminal.
process.exit(exitCode)
