// `bun run test`: the workspace and the tensor runtime are installed where they are missing, then every package is checked, linted and tested.
// The last line is `N passed, N failed`, with the skipped where there are any.
import { mkdtemp, rm, symlink } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { delimiter, join, resolve } from "node:path"
import { countsText, createTurboLog, skipReasons, totalCounts } from "./test-log.ts"
import { ensureWorkspace, systemWorkspaceHost } from "./workspace.ts"

const root = resolve(import.meta.dir, "..")
const say = (line: string): boolean => process.stdout.write(`${line}\n`)

/** Installs the runtime; its version, or undefined where it cannot be installed. The reason is shown by the command itself. */
async function ensureRuntime(): Promise<string | undefined> {
  const command = [process.execPath, join(root, "apps/cli/src/main.ts"), "runtime"]
  const installing = Bun.spawn([...command, "install"], { cwd: root, stdin: "ignore", stdout: "inherit", stderr: "inherit" })
  if ((await installing.exited) !== 0) {
    say("The tensor runtime is not installed: tests that need it are skipped.")
    return undefined
  }
  const info = Bun.spawn([...command, "info", "--json"], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "inherit" })
  const found: unknown = JSON.parse(await info.stdout.text())
  return typeof found === "object" && found !== null && "version" in found ? String(found.version) : "unknown"
}

/** All lines of a byte stream, as they come. */
async function eachLine(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    rest = lines.pop()!
    lines.forEach(take)
  }
  if (rest !== "") take(rest)
}

/** For one test. Bun's own 5 s are short for a compiler on a busy machine, and bunfig.toml cannot change them. */
const testTimeoutMs = 240_000

/** Runs turbo over every package with these words; true when all tasks succeeded. */
async function runTasks(words: readonly string[], runtime: string | undefined, log: ReturnType<typeof createTurboLog>): Promise<boolean> {
  // turbo calls `bun` by that name, which this Bun may not have.
  const bin = await mkdtemp(join(tmpdir(), "cohort-bun-"))
  try {
    await symlink(process.execPath, join(bin, "bun"))
    // On GitHub turbo would group its log in another format.
    const { GITHUB_ACTIONS: _, ...env } = process.env
    const concurrency = Math.max(2, Math.ceil(availableParallelism() / 2))
    const turbo = Bun.spawn(
      [process.execPath, join(root, "node_modules/turbo/bin/turbo"), "run", "--continue=always", `--concurrency=${concurrency}`, "--ui=stream", "--log-order=stream", "--log-prefix=task", "--no-color", ...words],
      {
        cwd: root,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        env: {
          ...env,
          PATH: `${bin}${delimiter}${process.env["PATH"] ?? ""}`,
          TURBO_TELEMETRY_DISABLED: "1",
          DO_NOT_TRACK: "1",
          TURBO_NO_UPDATE_NOTIFIER: "1",
          // Part of turbo's hash: results without the runtime are not those with it.
          COHORT_TEST_RUNTIME: runtime ?? "none",
        },
      },
    )
    // Sent to this process alone, a signal would leave turbo and its tasks behind.
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(name, () => {
        turbo.kill(name)
        void turbo.exited.then(() => process.exit(130))
      })
    const shown = new Set<string>()
    const take = (line: string): void => {
      const news = log.add(line)
      // bun test repeats its failures at the end.
      if (news === undefined || shown.has(news)) return
      shown.add(news)
      say(news)
    }
    const [, , exitCode] = await Promise.all([eachLine(turbo.stdout, take), eachLine(turbo.stderr, take), turbo.exited])
    return exitCode === 0
  } finally {
    await rm(bin, { recursive: true, force: true })
  }
}

async function main(): Promise<number> {
  await ensureWorkspace(root, { ...systemWorkspaceHost(), say: (line) => void say(line) })
  const runtime = await ensureRuntime()
  const log = createTurboLog()
  const extra = process.argv.slice(2)
  // Apart, since turbo hands what follows `--` to every task it was asked for.
  const checked = await runTasks(["check", "lint", ...extra], runtime, log)
  const tested = await runTasks(["test", ...extra, "--", "--timeout", String(testTimeoutMs)], runtime, log)
  const succeeded = checked && tested
  const tasks = [...log.tasks.values()]
  const failed = tasks.filter((task) => task.failed)
  for (const task of failed) say(`\n--- ${task.package} ${task.task} ---\n${task.lines.join("\n")}`)
  // Turbo itself may have failed: a cycle, a missing package manager.
  if (!succeeded && failed.length === 0) say(log.own.join("\n"))
  for (const reason of skipReasons(tasks)) say(reason)
  if (failed.length > 0) say(`\nFailed: ${failed.map(({ package: name, task }) => `${name} ${task}`).join(", ")}`)
  const total = totalCounts(tasks)
  say(countsText(total))
  return succeeded && total.failed === 0 ? 0 : 1
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
  say("0 passed, 1 failed")
  process.exitCode = 1
}
