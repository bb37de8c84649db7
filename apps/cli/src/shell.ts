// What the commands see of the outside: two output streams, the environment, the clock, signals. Tests give their own.

/** A stream that text is written to. */
export interface Output {
  write(text: string): void
  readonly isTTY: boolean
  /** Width of the terminal in characters; 80 where there is none. */
  readonly columns: number
}

export type SignalName = "SIGINT" | "SIGTERM" | "SIGHUP"

export interface Shell {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Calls `listener` for each signal; returns what stops that. */
  onSignal(names: readonly SignalName[], listener: (name: SignalName) => void): () => void
  /** Ends every child process of this one, and theirs, then this one, at once. */
  exitNow(code: number): void
}

/** Whether to write colours: `NO_COLOR` and `TERM=dumb` say no, `FORCE_COLOR` says yes, else a terminal gets them. */
export function wantsColor(output: Output, env: Shell["env"]): boolean {
  if (env["NO_COLOR"]) return false
  if (env["FORCE_COLOR"] && env["FORCE_COLOR"] !== "0") return true
  return output.isTTY && env["TERM"] !== "dumb"
}

/** How the user starts this program, for lines that say what to type next. */
export function programName(env: Shell["env"]): string {
  const script = env["npm_lifecycle_event"]
  return script === "quickstart" || script === "cohort" ? "bun run cohort" : "cohort"
}
