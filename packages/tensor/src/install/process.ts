// Runs one program to its end with a bounded memory of what it printed; ended by the signal or by silence.
import { spawn } from "node:child_process"
import type { Environment } from "./host.ts"

export interface ProgramResult {
  /** Exit code; undefined when a signal ended it. */
  readonly code: number | undefined
  /** The last 8,000 characters of stdout and stderr, in order of arrival. */
  readonly output: string
}

export interface ProgramOptions {
  readonly env: Environment
  readonly cwd?: string
  readonly signal: AbortSignal
}

/**
 * Runs a program without input and waits for its end. An abort sends SIGTERM, two seconds later SIGKILL, and rejects with
 * the signal's reason once the program is gone.
 *
 * @throws what `spawn` reports (ENOENT, EACCES), or the signal's reason.
 */
export async function runProgram(command: readonly [string, ...string[]], options: ProgramOptions): Promise<ProgramResult> {
  options.signal.throwIfAborted()
  const [program, ...args] = command
  const child = spawn(program, args, {
    env: { ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  })
  let output = ""
  const collect = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-8000)
  }
  child.stdout.on("data", collect)
  child.stderr.on("data", collect)
  let killer: ReturnType<typeof setTimeout> | undefined
  const stop = () => {
    child.kill("SIGTERM")
    killer = setTimeout(() => child.kill("SIGKILL"), 2000)
  }
  options.signal.addEventListener("abort", stop, { once: true })
  try {
    const code = await new Promise<number | undefined>((resolve, reject) => {
      child.once("error", reject)
      child.once("close", (exitCode) => resolve(exitCode ?? undefined))
    })
    options.signal.throwIfAborted()
    return { code, output }
  } finally {
    clearTimeout(killer)
    options.signal.removeEventListener("abort", stop)
  }
}
