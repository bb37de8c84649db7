// Installs the workspace's dependencies where they are missing or older than the lock file. Imports Bun's builtins only: on a
// fresh clone there is nothing else.
import { createHash } from "node:crypto"
import { mkdir, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"

/** What {@link ensureWorkspace} does outside this process. */
export interface WorkspaceHost {
  /** Runs `bun install` with these arguments in a folder; `output` is shown when it fails. */
  install(root: string, args: readonly string[]): Promise<{ readonly exitCode: number; readonly output: string }>
  /** One line for a person. */
  say(line: string): void
}

const stampFile = "node_modules/.cohort-workspace"

/**
 * Makes sure that the dependencies in `bun.lock` are installed; true when they had to be. A stamp beside them remembers the lock file's hash, so
 * that a later start costs two small reads.
 *
 * @throws Error with the installer's output where it fails
 * @example
 * await ensureWorkspace(root, systemWorkspaceHost())
 */
export async function ensureWorkspace(root: string, host: WorkspaceHost): Promise<boolean> {
  const lock = createHash("sha256").update(await readFile(join(root, "bun.lock"))).digest("hex")
  const stamp = join(root, stampFile)
  const installed = await readFile(stamp, "utf8").catch(() => undefined)
  if (installed === lock) return false
  host.say(installed === undefined ? "Installing the workspace's dependencies (once)" : "Bringing the workspace's dependencies up to date")
  const { exitCode, output } = await host.install(root, ["install", "--frozen-lockfile"])
  if (exitCode !== 0) throw new Error(`bun install --frozen-lockfile failed with exit code ${exitCode}:\n${output.trim()}`)
  await mkdir(join(root, "node_modules"), { recursive: true })
  // Renamed into place, so that a start at the same moment reads the whole stamp or none.
  await writeFile(`${stamp}.${process.pid}`, lock)
  await rename(`${stamp}.${process.pid}`, stamp)
  return true
}

/** Runs the Bun that runs this, whatever its name on the PATH; says its line on stderr, so that stdout stays the program's own. */
export function systemWorkspaceHost(): WorkspaceHost {
  return {
    async install(root, args) {
      const child = Bun.spawn([process.execPath, ...args], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" })
      const [out, err, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
      return { exitCode, output: `${out}${err}` }
    },
    say: (line) => process.stderr.write(`${line}\n`),
  }
}
