// The `cohort` command as a user runs it: a process of its own, its output, its signals, its end.
import { afterEach, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { findRuntime } from "@cohort/tensor"

export const repository = resolve(import.meta.dir, "../..")
const entry = join(repository, "apps/cli/src/main.ts")

/** Tests of whole runs; without the library they would compile for minutes on the fallback. */
const lookup = findRuntime({ env: process.env })
if (lookup.status !== "found") process.stderr.write(`tests of whole runs are skipped: ${lookup.reason}. ${lookup.hint}\n`)
export const testRun = test.skipIf(lookup.status !== "found")

/** A quickstart that is over in seconds. */
export const small = ["--rollout.groupSize", "4", "--train.completionsPerStep", "16", "--eval.prompts", "8"]

export interface Program {
  readonly pid: number
  /** Everything on stdout, and on stderr, so far. */
  readonly out: string
  readonly err: string
  /** Resolves once the pattern is in stdout or stderr; rejects at the end of the process or after `ms`. */
  sees(pattern: RegExp, ms?: number): Promise<RegExpExecArray>
  kill(signal: NodeJS.Signals): void
  /** Exit code; rejects after `ms`. */
  ends(ms?: number): Promise<number>
}

const started: Bun.Subprocess[] = []
const folders: string[] = []

afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL")
    await child.exited
  }
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

/** A folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "cohort-e2e-"))
  folders.push(folder)
  return folder
}

/** Starts `cohort` with these words. */
export function cohort(args: readonly string[], cwd: string = repository, env: Readonly<Record<string, string>> = {}): Program {
  const child = Bun.spawn([process.execPath, entry, ...args], { cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe", env: { ...process.env, NO_COLOR: "1", ...env } })
  started.push(child)
  const text = { out: "", err: "" }
  const read = async (stream: ReadableStream<Uint8Array>, into: "out" | "err"): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) text[into] += decoder.decode(chunk, { stream: true })
  }
  const closed = Promise.all([read(child.stdout, "out"), read(child.stderr, "err"), child.exited])
  const story = (): string => `stdout:\n${text.out}\nstderr:\n${text.err}`
  return {
    pid: child.pid,
    get out() {
      return text.out
    },
    get err() {
      return text.err
    },
    async sees(pattern, ms = 200_000) {
      const deadline = performance.now() + ms
      for (;;) {
        const found = pattern.exec(text.out) ?? pattern.exec(text.err)
        if (found !== null) return found
        if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended with ${child.exitCode ?? child.signalCode} before ${pattern}\n${story()}`)
        if (performance.now() > deadline) throw new Error(`no ${pattern} after ${ms} ms\n${story()}`)
        await Bun.sleep(10)
      }
    },
    kill: (signal) => child.kill(signal),
    async ends(ms = 200_000) {
      const late = Symbol("late")
      const end = await Promise.race([closed, Bun.sleep(ms).then(() => late)])
      if (end === late) throw new Error(`it did not end within ${ms} ms\n${story()}`)
      return child.exitCode ?? -1
    },
  }
}

/** Polls until it holds. */
export async function until(holds: () => boolean | Promise<boolean>, ms: number, what: string): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not after ${ms} ms: ${what}`)
    await Bun.sleep(20)
  }
}
