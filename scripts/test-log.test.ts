import { expect, test } from "bun:test"
import { countsText, createTurboLog, skipReasons, totalCounts } from "./test-log.ts"

const stream = `
   • Running check, lint, test in 3 packages
@cohort/errors:lint: Found 0 warnings and 0 errors.
@cohort/loss:test: cache hit, replaying logs 7a0878189a339829
@cohort/loss:test: $ bun test
@cohort/loss:test: (pass) a test that says 3 fail [1 ms]
@cohort/loss:test:
@cohort/loss:test:  12 pass
@cohort/loss:test:  2 skip
@cohort/loss:test:  0 fail
@cohort/loss:test: Ran 14 tests across 3 files. [1.2s]
\u001B[35m@cohort/data:test: \u001B[0m (fail) reads a file
@cohort/data:test: (fail) reads a file [2 ms]
@cohort/data:test:  4 pass
@cohort/data:test:  1 fail
@cohort/data:test:  1 error
@cohort/data:test: Ran 5 tests across 1 file. [80.00ms]
@cohort/data#test:  WARNING  command finished with error, but continuing...
@cohort/broken:test: error: script "test" exited with code 1
@cohort/broken#test:  WARNING  command finished with error, but continuing...
@cohort/tensor:test: tests that need libtensorflow are skipped: no pip. Install it
@cohort/cli:check: src/a.ts:1:1 error
@cohort/cli#check:  ERROR  command (/x) exited (1)
`

test("counts every package, cached or not, and a task that dies without a count", () => {
  const log = createTurboLog()
  const shown = stream.split("\n").map((line) => log.add(line)).filter((line) => line !== undefined)
  const tasks = [...log.tasks.values()]
  expect(countsText(totalCounts(tasks))).toBe("16 passed, 3 failed, 2 skipped")
  expect(tasks.filter(({ failed }) => failed).map(({ package: name, task }) => `${name} ${task}`)).toEqual(["@cohort/data test", "@cohort/broken test", "@cohort/cli check"])
  expect(skipReasons(tasks)).toEqual(["tests that need libtensorflow are skipped: no pip. Install it"])
  expect(shown).toContain("@cohort/loss: 12 passed, 0 failed, 2 skipped (unchanged, from the cache)")
  expect(shown).toContain("@cohort/data: (fail) reads a file [2 ms]")
  expect(shown).toContain("@cohort/cli check: failed")
  expect(log.own).toContain("   • Running check, lint, test in 3 packages")
})

test("no tests, no skipped", () => {
  expect(countsText(totalCounts([]))).toBe("0 passed, 0 failed")
})
