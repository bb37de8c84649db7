// Reads the stream of `turbo run check lint test`: whose line it is, how many tests passed, which tasks failed.

/** What `bun test` counted; `files` is how many tasks gave counts. */
export interface TestCounts {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/** One task of one package, such as `@cohort/loss:test`. */
export interface TaskLog {
  readonly package: string
  readonly task: string
  readonly lines: string[]
  failed: boolean
  cached: boolean
}

export interface TurboLog {
  /** By `package:task`, in the order of their first line. */
  readonly tasks: ReadonlyMap<string, TaskLog>
  /** Lines of turbo itself. */
  readonly own: readonly string[]
  /** Takes one line; returns a line to show at once, where the line ends a task's work or brings bad news. */
  add(line: string): string | undefined
}

// eslint-disable-next-line no-control-regex -- colours are control characters
const colours = /\u001B\[[0-9;]*m/g
const taskLine = /^((?:@[\w.-]+\/)?[\w.-]+):([\w.-]+): ?(.*)$/
const failedTask = /^((?:@[\w.-]+\/)?[\w.-]+)#([\w.-]+):\s+(?:WARNING|ERROR)\s+command .*(?:error|exited)/
const verdict = /^\s*(\d+) (pass|fail|skip|todo|error)s?$/
const endOfTests = /^Ran \d+ tests? across \d+ files?\./

/** Collects a turbo stream made with `--log-order=stream --log-prefix=task`. */
export function createTurboLog(): TurboLog {
  const tasks = new Map<string, TaskLog>()
  const own: string[] = []

  function logOf(name: string, task: string): TaskLog {
    const key = `${name}:${task}`
    const known = tasks.get(key)
    if (known !== undefined) return known
    const made = { package: name, task, lines: [], failed: false, cached: false }
    tasks.set(key, made)
    return made
  }

  return {
    tasks,
    own,
    add(raw) {
      const line = raw.replace(colours, "").trimEnd()
      const failure = failedTask.exec(line)
      if (failure !== null) {
        logOf(failure[1]!, failure[2]!).failed = true
        return `${failure[1]} ${failure[2]}: failed`
      }
      const match = taskLine.exec(line)
      if (match === null) {
        own.push(line)
        return undefined
      }
      const log = logOf(match[1]!, match[2]!)
      const text = match[3]!
      if (log.lines.length === 0 && text.startsWith("cache hit")) log.cached = true
      log.lines.push(text)
      if (text.startsWith("(fail)")) return `${log.package}: ${text}`
      if (log.task !== "test" || !endOfTests.test(text)) return undefined
      return `${log.package}: ${countsText(countsOf(log))}${log.cached ? " (unchanged, from the cache)" : ""}`
    },
  }
}

/** Counts of one test task. A task that failed without a failed test, as when a file does not load, counts as one failure. */
export function countsOf(log: TaskLog): TestCounts {
  const counts = { passed: 0, failed: 0, skipped: 0 }
  for (const line of log.lines) {
    const match = verdict.exec(line)
    if (match === null) continue
    const n = Number(match[1])
    if (match[2] === "pass") counts.passed += n
    else if (match[2] === "skip" || match[2] === "todo") counts.skipped += n
    else counts.failed += n
  }
  if (log.failed && counts.failed === 0) counts.failed = 1
  return counts
}

/** Counts of all test tasks together. */
export function totalCounts(tasks: Iterable<TaskLog>): TestCounts {
  const total = { passed: 0, failed: 0, skipped: 0 }
  for (const log of tasks) {
    if (log.task !== "test") continue
    const { passed, failed, skipped } = countsOf(log)
    total.passed += passed
    total.failed += failed
    total.skipped += skipped
  }
  return total
}

/** `12 passed, 0 failed`, and the skipped where there are any. */
export function countsText({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`
}

/** Lines of a test log that say why tests were skipped. */
export function skipReasons(tasks: Iterable<TaskLog>): readonly string[] {
  const reasons = new Set<string>()
  for (const log of tasks) for (const line of log.lines) if (/skipped: /.test(line) && !line.startsWith("(")) reasons.add(line)
  return [...reasons]
}
