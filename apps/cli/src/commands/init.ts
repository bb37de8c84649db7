// `cohort init`: a config file to begin with.
import { existsSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { programName } from "../shell.ts"
import { starterConfig } from "../starter-config.ts"
import { usageError } from "../usage-error.ts"

export const init = defineCommand({
  summary: "Write a config file to begin with",
  details: "A short TOML file with the settings that most runs change, each with a word on what it does. A file that is there is never written over.",
  args: {
    file: { type: "positional", required: false, default: "cohort.toml", description: "Where to write it" },
  },
  examples: [["init", "writes cohort.toml"]],
  async run({ file }, { shell }) {
    if (!file.endsWith(".toml")) throw usageError(`${JSON.stringify(file)} does not end in .toml`, "The file is written as TOML.")
    const path = resolve(shell.cwd, file)
    if (existsSync(path)) throw new CohortError("config_invalid", `${file} is there already`, { hint: "Name another file, or remove it first." })
    try {
      // Fails rather than writes over what another process wrote meanwhile.
      await writeFile(path, starterConfig, { flag: "wx" })
    } catch (cause) {
      throw toCohortError(cause, "file_invalid", `${file} could not be written`)
    }
    const program = programName(shell.env)
    shell.stdout.write(`Wrote ${file}. What next:\n  ${program} config check ${file}\n  ${program} train ${file}\n`)
    return exitCodes.ok
  },
})
