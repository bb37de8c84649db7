// Builds what is published: dist/ for consumers of types, and the quickstart's starting model, which lies beside this package only in a clone.
import { cp, rm } from "node:fs/promises"
import { join } from "node:path"

const root = import.meta.dir
const model = "models/arithmetic-1m"

await rm(join(root, "dist"), { recursive: true, force: true })
const compiler = Bun.spawn(["tsc", "-p", "tsconfig.build.json"], { cwd: root, stdout: "inherit", stderr: "inherit" })
if ((await compiler.exited) !== 0) process.exit(1)

await rm(join(root, "models"), { recursive: true, force: true })
await cp(join(root, "../..", model), join(root, model), { recursive: true })
