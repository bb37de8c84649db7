// A shell for tests: output is kept, time and signals are the test's.
import type { Output, Shell, SignalName } from "./shell.ts"

export interface TestOutput extends Output {
  readonly text: string
}

export function testOutput(isTTY = false, columns = 80): TestOutput {
  let text = ""
  return {
    write(part) {
      text += part
    },
    get text() {
      return text
    },
    isTTY,
    columns,
  }
}

export interface TestShell extends Shell {
  readonly stdout: TestOutput
  readonly stderr: TestOutput
  nowMs: number
  readonly exits: readonly number[]
  send(name: SignalName): void
}

export function testShell(options: { isTTY?: boolean; env?: Shell["env"]; cwd?: string; columns?: number } = {}): TestShell {
  const listeners = new Set<(name: SignalName) => void>()
  const exits: number[] = []
  const shell: TestShell = {
    stdout: testOutput(options.isTTY, options.columns),
    stderr: testOutput(options.isTTY, options.columns),
    env: options.env ?? {},
    cwd: options.cwd ?? process.cwd(),
    nowMs: 0,
    now: () => shell.nowMs,
    onSignal(names, listener) {
      const own = (name: SignalName): void => {
        if (names.includes(name)) listener(name)
      }
      listeners.add(own)
      return () => void listeners.delete(own)
    },
    exits,
    exitNow: (code) => void exits.push(code),
    send: (name) => listeners.forEach((listener) => listener(name)),
  }
  return shell
}
