import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import fc from "fast-check"
import { formatConfig } from "./format.ts"
import type { JsonValue } from "./json.ts"
import { configKeys, envName } from "./keys.ts"
import { loadConfig, resolveConfig } from "./load.ts"
import { issuesOf, minimal, minimalFlags, sourcesOf } from "./testing.ts"

const toml = `
rewards = ["math"]
[model]
path = "models/tiny"
[data]
source = "env-arithmetic"
options = { digits = 2, deep = { a = 1 } }
[train]
learningRate = 1e-5
steps = 10
`

describe("precedence and origins", () => {
  test("override over flag over environment over file over default", async () => {
    const sources = sourcesOf({
      file: "cohort.toml",
      text: toml,
      env: { COHORT__TRAIN__STEPS: "20", COHORT__TRAIN__WARMUP_STEPS: "3", COHORT__SEED: "5", COHORT_LIBTENSORFLOW: "/lib/x.so" },
      flags: ["--train.warmupSteps", "4", "--seed=6"],
    })
    const { config, origins } = await loadConfig({ ...sources, overrides: { seed: 7 } })
    expect(config.train).toMatchObject({ learningRate: 1e-5, steps: 20, warmupSteps: 4 })
    expect(config.seed).toBe(7)
    expect(origins).toMatchObject({
      "train.learningRate": "file cohort.toml:train.learningRate",
      "train.steps": "env COHORT__TRAIN__STEPS",
      "train.warmupSteps": "flag --train.warmupSteps",
      seed: "override",
      "train.beta1": "default",
      rewards: "file cohort.toml:rewards",
    })
  })

  test("tables merge, lists replace", async () => {
    const sources = sourcesOf({
      file: "cohort.toml",
      text: toml,
      env: { COHORT__DATA__OPTIONS__MAX_VALUE: "[1, 2]" },
      flags: ["--data.options.digits", "3", "--data.options.deep.b=x y", "--rewards", "length,format"],
    })
    const { config, origins } = await loadConfig(sources)
    expect(config.data.options).toEqual({ digits: 3, deep: { a: 1, b: "x y" }, maxValue: [1, 2] })
    expect(config.rewards.map((reward) => reward.use)).toEqual(["length", "format"])
    expect(origins).toMatchObject({
      "data.options.digits": "flag --data.options.digits",
      "data.options.deep.a": "file cohort.toml:data.options.deep.a",
      "data.options.deep.b": "flag --data.options.deep.b",
      "data.options.maxValue": "env COHORT__DATA__OPTIONS__MAX_VALUE",
      rewards: "flag --rewards",
    })
  })

  test("an optional section comes into being with its first key", async () => {
    const { config } = await loadConfig(sourcesOf({ flags: [...minimalFlags, "--environment.use", "env-tool-use"] }))
    expect(config.environment).toEqual({ use: "env-tool-use", options: {} })
    const { issues } = await issuesOf(() => loadConfig(sourcesOf({ flags: [...minimalFlags, "--environment.options.x", "1"] })))
    expect(issues.map((issue) => [issue.kind, issue.path])).toEqual([["missing", "environment.use"]])
  })

  test("nothing given: the needed keys are named with the ways to set them", async () => {
    const { issues, message } = await issuesOf(() => loadConfig(sourcesOf({})))
    expect(issues.map((issue) => [issue.kind, issue.path])).toEqual([["missing", "model.path"], ["missing", "data.source"]])
    expect(message).toContain("with --model.path, or in COHORT__MODEL__PATH")
  })

  test("all problems of all sources come at once, with value, origin and fix", async () => {
    const text = `${toml}weightDecay = "0.1"\nleraningRate = 1\n[rollout]\ngroupSize = 1\n[objective]\nkind = "drgrpo"\nmaskTruncated = "yes"\n`
    const { issues, message } = await issuesOf(() =>
      loadConfig(sourcesOf({ file: "cohort.toml", text, env: { COHORT__TRAIN__BETA1: "x" }, flags: ["--eval.samples", "1e2", "--nmae", "run"] })),
    )
    expect(issues.map(({ path, origin }) => [path, origin])).toEqual([
      ["train.leraningRate", "file cohort.toml:train.leraningRate"],
      ["train.beta1", "env COHORT__TRAIN__BETA1"],
      ["eval.samples", "flag --eval.samples"],
      ["nmae", "flag --nmae"],
      ["rollout.groupSize", "file cohort.toml:rollout.groupSize"],
      ["train.weightDecay", "file cohort.toml:train.weightDecay"],
      ["objective.kind", "file cohort.toml:objective.kind"],
      ["objective.maskTruncated", "file cohort.toml:objective.maskTruncated"],
    ])
    expect(message).toContain('train.weightDecay = "0.1" (file cohort.toml:train.weightDecay): expected number >= 0. Write it without quotes: 0.1')
    expect(message).toContain('Did you mean "dr_grpo"?')
    expect(message).toContain("Write true, without quotes.")
    expect(message).toContain("Did you mean name?")
    expect(JSON.parse(JSON.stringify(issues))).toEqual(issues)
  })

  test("null, a section that is no table, a scalar for a list", async () => {
    const text = '{"model": {"path": "m"}, "data": {"source": "s"}, "train": 5, "seed": null, "plugins": "a", "eval": []}'
    const { issues } = await issuesOf(() => loadConfig(sourcesOf({ file: "c.json", text })))
    expect(issues.map(({ path, fix }) => [path, fix])).toEqual([
      ["train", undefined],
      ["eval", undefined],
      ["seed", "Leave the key out instead of null."],
      ["plugins", 'Write a list: ["a"].'],
    ])
  })

  test("a bad item of a list is named by its place", async () => {
    const { issues } = await issuesOf(() => resolveConfig({ ...minimal, rewards: ["math", { use: "x", deadlineMs: 0 }, {} as { use: string }, 4 as unknown as string] }))
    expect(issues.map(({ kind, path, expected }) => [kind, path, expected.slice(0, 12)])).toEqual([
      ["invalid", "rewards[1].deadlineMs", "integer >= 1"],
      ["missing", "rewards[2].use", "text"],
      ["invalid", "rewards[3]", "text or { us"],
    ])
  })
})

describe("files", () => {
  let dir = ""
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "cohort-config-"))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))
  const disk = { flags: [], readText: (path: string) => Bun.file(path).text(), importModule: (path: string) => import(pathToFileURL(path).href) }

  test.each([
    ["a.toml", 'seed = 4\n[model]\npath = "m"\n[data]\nsource = "s"\n[train]\nlearningRate = 1e-5\n'],
    ["a.yaml", "seed: 4\nmodel:\n  path: m\ndata: { source: s }\ntrain:\n  learningRate: 1e-5\n"],
    ["a.yml", "\uFEFFseed: 4\nmodel: {path: m}\ndata: {source: s}\ntrain: {learningRate: 1e-5}\n"],
    ["a.json", '{"$schema": "x", "seed": 4, "model": {"path": "m"}, "data": {"source": "s"}, "train": {"learningRate": 1e-5}}'],
    ["a.jsonc", '{"seed": 4, /* why */ "model": {"path": "m"}, "data": {"source": "s"}, "train": {"learningRate": 1e-5,},}'],
    ["a.json5", "{seed: 4, model: {path: 'm'}, data: {source: 's'}, train: {learningRate: 1e-5}}"],
    ["a.ts", "export default { seed: 4, model: { path: 'm' }, data: { source: 's' }, train: { learningRate: 1e-5 } } as const"],
  ])("%s", async (name, text) => {
    const file = join(dir, name)
    await Bun.write(file, text)
    const { config, origins } = await loadConfig({ ...disk, file })
    expect(config).toMatchObject({ seed: 4, model: { path: "m" }, train: { learningRate: 1e-5 } })
    expect(origins["train.learningRate"]).toBe(`file ${file}:train.learningRate`)
  })

  const failure = async (act: Promise<unknown>): Promise<CohortError> => {
    const error = await act.then(() => undefined, (error: unknown) => error)
    if (error instanceof CohortError) return error
    throw new Error("no CohortError")
  }

  test("missing, of another kind, broken, without a table", async () => {
    expect((await failure(loadConfig({ ...disk, file: join(dir, "none.toml") }))).code).toBe("config_not_found")
    expect((await failure(loadConfig(sourcesOf({ file: "run.ini" })))).message).toContain(".toml, .yaml, .yml, .json, .jsonc, .json5, .ts")
    for (const [file, text] of [["a.toml", "a = = 1"], ["a.yaml", "a: [1"], ["a.json", "{"], ["a.jsonc", "{"], ["a.json5", "{"], ["b.json", "[1]"], ["b.yaml", "- 1"]] as const) {
      const error = await failure(loadConfig(sourcesOf({ file, text })))
      expect(error.code).toBe("config_invalid")
      expect(error.message).toContain(file)
    }
    const module = join(dir, "broken.ts")
    await Bun.write(module, "export const config = {}")
    expect((await failure(loadConfig({ ...disk, file: module }))).hint).toContain("export default defineConfig")
    await Bun.write(join(dir, "throws.ts"), "throw new Error('boom')")
    expect((await failure(loadConfig({ ...disk, file: join(dir, "throws.ts") }))).message).toContain("boom")
  })

  // C152: one setting, two values
  test("a key given twice is refused, whatever the format", async () => {
    const files = {
      "a.toml": "[train]\nsteps = 1\nsteps = 2",
      "a.yaml": "train:\n  steps: 1\n  steps: 2",
      "a.json": '{"train": {"steps": 1, "steps": 2}}',
      "a.jsonc": '{"train": {"steps": 1, /* "x": */ "steps": 2}}',
      "a.json5": "{train: {steps: 1, 'steps': 2}}",
    }
    for (const [file, text] of Object.entries(files)) {
      const error = await failure(loadConfig(sourcesOf({ file, text })))
      expect(error.code).toBe("config_invalid")
      expect(error.message).toContain("steps")
    }
  })

  test("an unreadable file is not called missing", async () => {
    const error = await failure(loadConfig({ ...disk, file: "a.toml", readText: () => Promise.reject(Object.assign(new Error("denied"), { code: "EACCES" })) }))
    expect(error.code).toBe("file_invalid")
  })

  test("an empty file is an empty table", async () => {
    const { config } = await loadConfig(sourcesOf({ file: "a.yaml", text: "", flags: minimalFlags }))
    expect(config).toEqual(resolveConfig(minimal))
  })
})

describe("round trips", () => {
  const name = fc.constantFrom("a", "camelCase", "with.dot", "with space", "1", "ü", 'q"', "-", "$x")
  const scalar = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.string({ unit: "grapheme" }))
  const options = fc.dictionary(name, fc.oneof(scalar, fc.array(scalar, { maxLength: 3 }), fc.dictionary(name, scalar, { maxKeys: 2 })), { maxKeys: 3 })
  const inputs = fc.record({
    model: fc.record({ path: fc.string({ minLength: 1, unit: "grapheme" }) }),
    data: fc.record({ source: fc.constant("env-x"), options }),
    rewards: fc.array(fc.oneof(fc.constant("math"), fc.record({ use: fc.constant("x"), weight: fc.double({ min: 0.1, max: 9, noNaN: true }), options })), { maxLength: 3 }),
    train: fc.record({ learningRate: fc.double({ min: 1e-12, max: 1, noNaN: true }), steps: fc.integer({ min: 1, max: 1e9 }) }),
  })

  test("printed and loaded again, and through JSON, a config is the same", async () => {
    await fc.assert(
      fc.asyncProperty(inputs, async (input) => {
        const { config, origins } = await loadConfig({ ...sourcesOf({}), overrides: input })
        const again = await loadConfig(sourcesOf({ file: "shown.toml", text: formatConfig(config, origins) }))
        expect(again.config).toEqual(config)
        expect(resolveConfig(JSON.parse(JSON.stringify(config)))).toEqual(JSON.parse(JSON.stringify(config)))
      }),
      { numRuns: 60, seed: 4 },
    )
  })

  test("every setting can be given as a flag and as a variable, and means the same", async () => {
    const sample = (type: string, value: JsonValue | undefined): string => (value === undefined ? (/^integer|^number > 1$/.test(type) ? "4" : type.startsWith("number") ? "0.5" : "word") : typeof value === "string" ? value : JSON.stringify(value))
    for (const key of configKeys()) {
      if (key.path === "environment.options" || key.path === "objective.correctionMin") continue // need environment.use, objective.correction
      const text = sample(key.type, key.default)
      const rest = minimalFlags.includes(key.flag) ? minimalFlags.filter((_, i) => Math.floor(i / 2) !== Math.floor(minimalFlags.indexOf(key.flag) / 2)) : minimalFlags
      const byFlag = await loadConfig(sourcesOf({ flags: [...rest, `${key.flag}=${text}`] }))
      const byEnv = await loadConfig(sourcesOf({ flags: rest, env: { [key.env]: text } }))
      expect(byEnv.config).toEqual(byFlag.config)
      // One setting of a section that may be left out turns it on.
      const around = key.path.startsWith("model.lora.") ? { ...minimal, model: { ...minimal.model, lora: {} } } : minimal
      if (key.default !== undefined) expect(byFlag.config).toEqual(resolveConfig(around))
      expect(byEnv.origins[key.path]).toBe(`env ${envName(key.path)}`)
      expect(byFlag.origins[key.path]).toBe(`flag ${key.flag}`)
    }
  })
})

test("the printed config states the precedence and each origin", async () => {
  const { config, origins } = await loadConfig(sourcesOf({ file: "c.toml", text: toml, flags: ["--train.steps", "3"], env: { COHORT__SEED: "1" } }))
  const text = formatConfig(config, origins)
  expect(text.split("\n")[0]).toBe("# Precedence: override, flag, environment, file, default.")
  expect(text).toMatch(/^train\.steps = 3 +# flag --train\.steps$/m)
  expect(text).toMatch(/^seed = 1 +# env COHORT__SEED$/m)
  expect(text).toMatch(/^train\.learningRate = 0\.00001 +# file c\.toml:train\.learningRate$/m)
  expect(text).toMatch(/^eval\.samples = 1 +# default$/m)
})
