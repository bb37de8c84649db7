// What a subcommand is: its own arguments (citty's definitions), the words of its help page, and what it does.
import { type ArgsDef, defineCommand as defineCitty, type ParsedArgs, runCommand } from "citty"
import { splitArguments } from "./arguments.ts"
import type { Shell } from "./shell.ts"

export interface Invocation {
  readonly shell: Shell
  /** Flags that are settings of a run, as typed. */
  readonly settings: readonly string[]
}

interface Description {
  /** One sentence. */
  readonly summary: string
  /** More sentences for the help page. */
  readonly details?: string
  /** Command lines without the program's name, each with what it does. */
  readonly examples?: readonly (readonly [line: string, meaning: string])[]
  /** Whether `--section.key value` is taken. */
  readonly takesSettings?: boolean
  /** String flags whose value may be left out, and then is ""; the function says whether the next word is the value. */
  readonly optionalValues?: Readonly<Record<string, (next: string) => boolean>>
}

export interface Command extends Description {
  readonly args: ArgsDef
  /**
   * Runs it with the words after its name; resolves to the exit code.
   * @throws CohortError
   */
  invoke(name: string, argv: readonly string[], shell: Shell): Promise<number>
}

/** Commands under one name, loaded when asked for. */
export interface CommandGroup {
  readonly summary: string
  readonly commands: Readonly<Record<string, () => Promise<Command | CommandGroup>>>
}

/**
 * Makes a command; `run` gets the arguments typed by their definitions.
 *
 * @example
 * defineCommand({ summary: "Prints a word", args: { word: { type: "positional" } }, run: ({ word }, { shell }) => (shell.stdout.write(word), 0) })
 */
export function defineCommand<const Args extends ArgsDef>(
  spec: Description & { readonly args: Args; readonly run: (args: ParsedArgs<Args>, invocation: Invocation) => Promise<number> | number },
): Command {
  const { run, ...description } = spec
  return {
    ...description,
    async invoke(name, argv, shell) {
      const { own, settings } = splitArguments(argv, { command: name, args: spec.args, takesSettings: spec.takesSettings ?? false, optionalValues: spec.optionalValues })
      let exitCode = 0
      const command = defineCitty({
        args: spec.args,
        run: async ({ args }) => {
          exitCode = await run(args, { shell, settings })
        },
      })
      await runCommand(command, { rawArgs: [...own] })
      return exitCode
    },
  }
}
