// From the words on the command line to an exit code: finds the command, shows help, runs it, and says what failed.
import { toCohortError } from "@cohort/errors"
import type { Command, CommandGroup } from "./command.ts"
import { root } from "./commands/all.ts"
import { exitCodeOf, exitCodes, failureText } from "./failure.ts"
import { commandHelp, groupHelp } from "./help.ts"
import { type Shell, wantsColor } from "./shell.ts"
import { painter } from "./style.ts"
import { usageError } from "./usage-error.ts"
import { packageVersion } from "./version.ts"

const footer = [
  "",
  "Environment: NO_COLOR=1 no colours; COHORT_DEBUG=1 stacks with errors; COHORT_CACHE the cache folder;",
  "COHORT_LIBTENSORFLOW a library of your own; COHORT__TRAIN__STEPS=20 and the like are settings.",
  "Exit codes: 0 done, 1 failed, 2 wrong command line or config, 130 interrupted.",
]

/**
 * Runs one command line; never throws.
 *
 * @example
 * process.exitCode = await runCli(["config", "schema"], systemShell())
 */
export async function runCli(argv: readonly string[], shell: Shell): Promise<number> {
  try {
    return await dispatch(argv, shell)
  } catch (error) {
    const paint = painter(wantsColor(shell.stderr, shell.env))
    shell.stderr.write(failureText(error, { debug: shell.env["COHORT_DEBUG"] === "1", paint }))
    return exitCodeOf(error)
  }
}

async function dispatch(argv: readonly string[], shell: Shell): Promise<number> {
  if (argv[0] === "--version" || argv[0] === "-v") {
    shell.stdout.write(`${await packageVersion()}\n`)
    return exitCodes.ok
  }
  let found: Command | CommandGroup = root
  let name = "cohort"
  let rest = argv
  while ("commands" in found) {
    const [word, ...after] = rest
    if (word === undefined || isHelp(word)) break
    const load: (() => Promise<Command | CommandGroup>) | undefined = Object.hasOwn(found.commands, word) ? found.commands[word] : undefined
    if (load === undefined) throw usageError(`unknown command "${[...name.split(" ").slice(1), word].join(" ")}"`, `${name} has the commands ${Object.keys(found.commands).join(", ")}.`)
    found = await load()
    name = `${name} ${word}`
    rest = after
  }
  const page = { name, columns: shell.stdout.columns, paint: painter(wantsColor(shell.stdout, shell.env)) }
  if ("commands" in found) {
    const asked = rest.some(isHelp)
    const output = asked ? shell.stdout : shell.stderr
    output.write(await groupHelp(found, page, found === root ? footer : []))
    return asked ? exitCodes.ok : exitCodes.usage
  }
  if (rest.some(isHelp)) {
    shell.stdout.write(commandHelp(found, page))
    return exitCodes.ok
  }
  return invoke(found, name, rest, shell)
}

async function invoke(command: Command, name: string, rest: readonly string[], shell: Shell): Promise<number> {
  try {
    return await command.invoke(name, rest, shell)
  } catch (error) {
    // citty's own complaints, such as a missing argument, carry a code of this form.
    if (error instanceof Error && error.name === "CLIError") throw usageError(Bun.stripANSI(error.message), `See: ${name} --help`)
    throw toCohortError(error)
  }
}

const isHelp = (word: string): boolean => word === "--help" || word === "-h"
