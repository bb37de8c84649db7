// The shell of this process.
import { killDescendants } from "./descendants.ts"
import type { Output, Shell } from "./shell.ts"

/** The real thing; `flush` resolves when all output has left the process. */
export function systemShell(): Shell & { flush(): Promise<void> } {
  const stdout = outputOf(process.stdout)
  const stderr = outputOf(process.stderr)
  return {
    stdout,
    stderr,
    env: process.env,
    cwd: process.cwd(),
    now: Date.now,
    onSignal(names, listener) {
      const entries = names.map((name) => [name, () => listener(name)] as const)
      for (const [name, run] of entries) process.on(name, run)
      return () => {
        for (const [name, run] of entries) process.off(name, run)
      }
    },
    exitNow(code) {
      killDescendants(process.pid)
      process.exit(code)
    },
    async flush() {
      await Promise.all([stdout.flush(), stderr.flush()])
    },
  }
}

function outputOf(stream: NodeJS.WriteStream): Output & { flush(): Promise<void> } {
  let broken = false
  // A reader that left, as `head` does, must not end a run that trains.
  stream.on("error", () => (broken = true))
  return {
    write(text) {
      if (!broken) stream.write(text)
    },
    get isTTY() {
      return stream.isTTY === true
    },
    get columns() {
      return stream.columns || 80
    },
    flush: () => new Promise((resolve) => (broken ? resolve() : stream.write("", () => resolve()))),
  }
}
