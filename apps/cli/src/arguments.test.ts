import { expect, test } from "bun:test"
import type { ArgsDef } from "citty"
import { splitArguments, wholeNumber } from "./arguments.ts"

const args: ArgsDef = {
  config: { type: "positional", required: false },
  json: { type: "boolean" },
  "max-staleness": { type: "string" },
  resume: { type: "string" },
}
const split = (line: string, takesSettings = true) =>
  splitArguments(line === "" ? [] : line.split(" "), { command: "cohort train", args, takesSettings, optionalValues: { resume: (next) => !next.endsWith(".toml") } })

test("parts own flags from settings, wherever they stand", () => {
  expect(split("--train.steps 20 run.toml --json --max-staleness 2 --seed=3 --rollout.temperature 0.5")).toEqual({
    own: ["run.toml", "--json", "--max-staleness", "2"],
    settings: ["--train.steps", "20", "--seed=3", "--rollout.temperature", "0.5"],
  })
})

test("a boolean setting does not swallow the file", () => {
  expect(split("--data.shuffle run.toml")).toEqual({ own: ["run.toml"], settings: ["--data.shuffle"] })
  expect(split("--data.shuffle false run.toml")).toEqual({ own: ["run.toml"], settings: ["--data.shuffle", "false"] })
  expect(split("--no-data.shuffle run.toml")).toEqual({ own: ["run.toml"], settings: ["--no-data.shuffle"] })
})

test("a misspelt setting reaches the config, which knows what was meant", () => {
  expect(split("--train.leraningRate 1e-5").settings).toEqual(["--train.leraningRate", "1e-5"])
})

test.each([
  ["--jsno", "unknown flag --jsno", "Did you mean --json?"],
  ["--maxStaleness 3", "unknown flag --maxStaleness", "Did you mean --max-staleness?"],
  ["--frobnicate", "unknown flag --frobnicate", "See: cohort train --help"],
  ["-x", "unknown flag -x", "See: cohort train --help"],
  ["a.toml b.toml", 'unexpected argument "b.toml"', "See: cohort train --help"],
  ["--max-staleness --json", "--max-staleness needs a value", "See: cohort train --help"],
  ["--max-staleness", "--max-staleness needs a value", "See: cohort train --help"],
])("refuses %p", (line, message, hint) => {
  expect(() => split(line)).toThrow(expect.objectContaining({ code: "config_invalid", message, hint }))
})

test("settings are unknown flags where a command takes none", () => {
  expect(() => split("--train.steps 3", false)).toThrow("unknown flag --train.steps")
})

test("a value that may be left out takes neither a file nor a flag", () => {
  expect(split("--resume run.toml").own).toEqual(["--resume=", "run.toml"])
  expect(split("--resume --json").own).toEqual(["--resume=", "--json"])
  expect(split("run.toml --resume runs/a").own).toEqual(["run.toml", "--resume=runs/a"])
  expect(split("run.toml --resume=runs/a").own).toEqual(["run.toml", "--resume=runs/a"])
  expect(split("run.toml --resume").own).toEqual(["run.toml", "--resume="])
})

test("whole numbers", () => {
  expect(wholeNumber("--port", "0", 0, 65_535)).toBe(0)
  for (const text of ["", "-1", "1.5", "65536", "0x10", "1e3", " 1"]) expect(() => wholeNumber("--port", text, 0, 65_535)).toThrow("expected a whole number from 0 to 65535")
})
