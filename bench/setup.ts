// Makes the Python environment of the peers, apart from everything else: PyTorch, transformers, TRL at the versions that figures were taken with.
// Prints the line that the benches want in their environment.
import { existsSync } from "node:fs"
import { mkdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { cacheFolder, systemHost } from "@cohort/tensor"

const packages = ["torch==2.13.0", "transformers==5.24.0", "trl==1.16.0", "datasets==5.2.0"]
const folder = join(cacheFolder(process.env, systemHost().home), "bench-python")
const python = join(folder, "bin/python")
const complete = join(folder, "complete.json")

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { stdin: "ignore", stdout: 2, stderr: 2 })
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")} ended with ${child.exitCode}`)
}

const wanted = JSON.stringify(packages)
if (!existsSync(complete) || (await Bun.file(complete).text()) !== wanted) {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const uv = Bun.which("uv")
  if (uv !== null) {
    await run([uv, "venv", "--clear", folder])
    await run([uv, "pip", "install", "--python", python, ...packages])
  } else {
    const system = Bun.which("python3")
    if (system === null) throw new Error("python3 is missing. Install Python 3.10 or later with its venv module.")
    await run([system, "-m", "venv", folder])
    await run([python, "-m", "pip", "install", "--disable-pip-version-check", ...packages])
  }
  // Last, so that an installation that was cut off is made again.
  await Bun.write(`${complete}.partial`, wanted)
  await rename(`${complete}.partial`, complete)
}
process.stdout.write(`COHORT_BENCH_PYTHON=${python}\n`)
