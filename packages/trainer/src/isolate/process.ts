// One isolate: a child process with a channel for calls. A worker thread would not do: its memory cannot be bounded apart from the run's.
import { CohortError } from "@cohort/errors"
import { type Caller, createCaller, type Port } from "@cohort/thread"
import { residentBytes } from "../memory.ts"
import { isLogLine } from "./request.ts"

export interface Isolate {
  readonly pid: number
  readonly call: Caller["call"]
  /** 0 once it is gone, or where the system does not tell. */
  residentBytes(): number
  /** Ends it and what it started, at once, whatever it is doing. */
  kill(): void
  /** Resolves when it is gone. */
  readonly exited: Promise<void>
}

export interface IsolateProcessOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Lines that its plugin logs or prints. */
  readonly log: (line: string) => void
}

/** Last lines of its own words that an error shows. */
const shownLines = 4

/**
 * Starts the process; it dies with this one. Calls fail with `worker_failed` and its last words once it is gone.
 *
 * @example
 * const isolate = spawnIsolate({ env: process.env, log: console.error })
 * await isolate.call("open", request)
 */
export function spawnIsolate({ env, log }: IsolateProcessOptions): Isolate {
  const listeners: ((event: MessageEvent) => void)[] = []
  const tail: string[] = []
  // No package is fetched for a name that is not installed.
  const child = Bun.spawn([process.execPath, "--no-orphans", "--no-install", new URL("./main.ts", import.meta.url).pathname], {
    env: { ...env },
    // Arrays of token ids pass as they are.
    serialization: "advanced",
    ipc(message) {
      if (isLogLine(message)) log(message.log)
      else for (const listener of listeners) listener({ data: message } as MessageEvent)
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    // A group of its own: Ctrl-C does not reach it, and one signal ends it with all that it started.
    detached: true,
  })
  const port: Port = {
    postMessage: (message) => void child.send(message),
    addEventListener: (_, listener) => void listeners.push(listener),
  }
  const caller = createCaller(port)
  const hear = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
    for await (const line of linesOf(stream)) {
      log(line)
      tail.push(line)
      tail.splice(0, Math.max(0, tail.length - shownLines))
    }
  }
  const heard = Promise.all([hear(child.stdout), hear(child.stderr)])
  const exited = child.exited.then(async (code) => {
    // A process that it started may hold the pipes open.
    await Promise.race([heard, Bun.sleep(lastWordsMs)])
    const words = tail.length === 0 ? "" : `; its last words were: ${tail.join(" | ")}`
    caller.fail(new CohortError("worker_failed", `its process ended with ${child.signalCode ?? `code ${code}`}${words}`))
  })
  return {
    pid: child.pid,
    call: caller.call,
    residentBytes: () => residentBytes(child.pid),
    kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {
        // It has just ended, or has no group yet: the process alone then.
        child.kill("SIGKILL")
      }
    },
    exited,
  }
}

const lastWordsMs = 200

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    // A plugin that prints without end and without a line must not fill the run's memory.
    if (rest.length > longestLine) rest = rest.slice(-longestLine)
    yield* lines.filter((line) => line.trim() !== "")
  }
  if (rest.trim() !== "") yield rest
}

const longestLine = 10_000
