// The engine in a process of its own: started, watched and stopped by whoever trains.
import { openSync } from "node:fs"
import { CohortError } from "@cohort/errors"
import type { HostOptions } from "./host.ts"
import { withHugePages } from "./huge-pages.ts"

export interface EngineProcess {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** What it computes in: weights in this type are as good as float32 ones. */
  readonly dtype: "f32" | "bf16"
  /** Resolves with the exit code, or the name of the signal, when the process is gone. */
  readonly exited: Promise<number | string>
  /** Ends the process: asks, then after `graceMs` kills. */
  stop(graceMs?: number): Promise<void>
}

export interface SpawnOptions {
  /** Where the process writes what it says; appended. */
  readonly logPath?: string
  /** Time until it must be ready, compiling included, ms. */
  readonly startTimeoutMs: number
  readonly signal: AbortSignal
}

/** Last lines of the process's own words that an error shows. */
const shownLines = 8

/**
 * Starts an engine server process on this machine and waits until it serves. It ends by itself when this process dies.
 * @throws CohortError `inference_failed` with its last lines when it ends early, `timeout`, `aborted`; what it says of itself is kept
 */
export async function spawnEngineProcess(host: HostOptions, options: SpawnOptions): Promise<EngineProcess> {
  const log = options.logPath === undefined ? "ignore" : openSync(options.logPath, "a")
  const child = Bun.spawn([process.execPath, new URL("./main.ts", import.meta.url).pathname], {
    stdin: new Blob([JSON.stringify({ ...host, parentPid: process.pid })]),
    stdout: "pipe",
    stderr: "pipe",
    env: withHugePages(process.env),
    // Its own session: Ctrl-C in a terminal reaches the parent alone, which ends the engine in order.
    detached: true,
  })
  const tail: string[] = []
  const keep = (text: string): void => {
    tail.push(...text.split("\n").filter((line) => line !== ""))
    tail.splice(0, Math.max(0, tail.length - shownLines))
  }
  const exited = child.exited.then((code) => child.signalCode ?? code)
  void pump(child.stderr, log, keep)
  const stop = async (graceMs = 5_000): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill("SIGTERM")
    const timer = setTimeout(() => child.kill("SIGKILL"), graceMs)
    await exited
    clearTimeout(timer)
  }
  try {
    const ready = await firstLine(child.stdout, exited, tail, options)
    return { ...ready, pid: child.pid, exited, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function pump(stream: ReadableStream<Uint8Array>, log: number | "ignore", keep: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  const sink: Bun.FileSink | undefined = log === "ignore" ? undefined : Bun.file(log).writer()
  for await (const chunk of stream) {
    keep(decoder.decode(chunk, { stream: true }))
    if (sink === undefined) continue
    sink.write(chunk)
    await sink.flush()
  }
}

async function firstLine(stdout: ReadableStream<Uint8Array>, exited: Promise<number | string>, tail: readonly string[], options: SpawnOptions): Promise<Pick<EngineProcess, "url" | "port" | "dtype">> {
  const said = (): string => (tail.length === 0 ? "it said nothing" : `its last words were:\n${tail.join("\n")}`)
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(() => deadline.reject(new CohortError("timeout", `the engine process was not ready after ${options.startTimeoutMs / 1000} s; ${said()}`, { hint: "Raise inference.startTimeoutMs for a large model." })), options.startTimeoutMs)
  const onAbort = (): void => deadline.reject(new CohortError("aborted", "the start of the engine was interrupted"))
  options.signal.addEventListener("abort", onAbort, { once: true })
  if (options.signal.aborted) onAbort()
  try {
    const ended = exited.then(async (code) => {
      // Its last words may still be on the way.
      await Bun.sleep(50)
      throw lastError(tail) ?? new CohortError("inference_failed", `the engine process ended with ${code} before it was ready; ${said()}`)
    })
    ended.catch(() => undefined)
    const line = await Promise.race([readLine(stdout), ended, deadline.promise])
    return JSON.parse(line) as Pick<EngineProcess, "url" | "port" | "dtype">
  } finally {
    clearTimeout(timer)
    options.signal.removeEventListener("abort", onAbort)
  }
}

/** The typed error that the process wrote about itself, when it did. */
function lastError(tail: readonly string[]): CohortError | undefined {
  const line = tail.findLast((text) => text.startsWith('{"cohortError"'))
  if (line === undefined) return undefined
  const { code, message, hint } = (JSON.parse(line) as { cohortError: { code: CohortError["code"]; message: string; hint?: string } }).cohortError
  return new CohortError(code, message, hint === undefined ? {} : { hint })
}

async function readLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ""
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    const end = text.indexOf("\n")
    if (end >= 0) return text.slice(0, end)
  }
  // The stream ended: the process is going, and its exit is what the caller should hear of.
  return new Promise(() => undefined)
}
