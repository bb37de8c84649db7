// Runs a program of the workspace, after installing the dependencies where they are missing:
// bun scripts/with-workspace.ts apps/cli/src/main.ts quickstart
// The program runs in this very process, so signals, standard streams and the exit code are its own.
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { ensureWorkspace, systemWorkspaceHost } from "./workspace.ts"

const root = resolve(import.meta.dir, "..")
const [entry, ...args] = process.argv.slice(2)
if (entry === undefined) {
  process.stderr.write("Name the program to run: bun scripts/with-workspace.ts apps/cli/src/main.ts --help\n")
  process.exit(2)
}
try {
  await ensureWorkspace(root, systemWorkspaceHost())
} catch (error) {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
const program = resolve(root, entry)
process.argv.splice(1, process.argv.length, program, ...args)
await import(pathToFileURL(program).href)
