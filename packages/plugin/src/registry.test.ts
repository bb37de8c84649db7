import { describe, expect, test } from "bun:test"
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { runReward } from "@cohort/env"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { defineEnvironment, definePlugin, defineReward, defineTools, defineTracker } from "./define.ts"
import { systemHost } from "./host.ts"
import { provides } from "./manifest.ts"
import { createRegistry, type LoadedReward } from "./registry.ts"
import { fakeRewardContext, fakeRollout, fakeSetupContext } from "./testing/fake.ts"

const host = systemHost()
const ctx = fakeSetupContext()
const valueOf = async ({ reward, name }: LoadedReward, text = "four") => (await runReward(reward, [fakeRollout({ text })], fakeRewardContext(), name))[0]
const fails = async (promise: Promise<unknown>) => promise.then(() => expect.unreachable("nothing was thrown"), (error: unknown) => error as Error & { code: string; details: Record<string, unknown> })

const limitSchema: StandardSchemaV1<unknown, { limit: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate(value) {
      const { limit = 10, ...rest } = value as { limit?: unknown }
      const issues = Object.keys(rest).map((key) => ({ message: "unknown key", path: [key] }))
      if (typeof limit !== "number") return { issues: [...issues, { message: "expected a number", path: [{ key: "limit" }] }] }
      return issues.length > 0 ? { issues } : { value: { limit } }
    },
  },
}
const short = defineReward({
  summary: "1 when short",
  options: limitSchema,
  needs: ({ limit }) => [`up to ${limit}`],
  range: [0, 1],
  deterministic: true,
  setup: ({ limit }, { log }) => {
    log("ready")
    return (rollout) => (rollout.text === "bad" ? 2 : rollout.text.length <= limit ? 1 : 0)
  },
})

describe("packages", () => {
  test("a short name finds @cohort/<name>, then cohort-plugin-<name>, then the package of that name", async () => {
    await using project = await projectWith({
      ...packageFiles("@cohort/aa", { name: "aa", rewards: ["x"], value: 1 }),
      ...packageFiles("cohort-plugin-bb", { name: "bb", rewards: ["x", "y"], value: 2 }),
      ...packageFiles("cc", { name: "cc", rewards: ["x"], value: 3 }),
      ...packageFiles("@acme/dd", { name: "dd", rewards: ["x"], value: 4 }),
    })
    const registry = createRegistry(host)
    const here = { ...ctx, projectDir: project.dir }
    expect(await valueOf(await registry.reward("aa", here))).toEqual({ kind: "ok", value: 1 })
    expect(await registry.reward("bb/y", here)).toMatchObject({ name: "bb/y" })
    expect(await valueOf(await registry.reward("cc", here))).toEqual({ kind: "ok", value: 3 })
    expect(await registry.reward("@acme/dd/x", here)).toMatchObject({ name: "dd" })
    expect(await registry.load("@cohort/aa", project.dir)).toBe(await registry.load("aa", project.dir))
    expect(registry.plugins.map((plugin) => plugin.name)).toEqual(["aa", "bb", "cc", "dd"])
  })

  test("the project comes before the installation", async () => {
    await using project = await projectWith(packageFiles("@cohort/aa", { name: "aa", rewards: ["x"], value: 1 }))
    await using install = await projectWith({
      ...packageFiles("@cohort/aa", { name: "aa", rewards: ["x"], value: 2 }),
      ...packageFiles("@cohort/bb", { name: "bb", rewards: ["x"], value: 3 }),
    })
    const registry = createRegistry({ ...host, installDirs: [install.dir] })
    const here = { ...ctx, projectDir: project.dir }
    expect(await valueOf(await registry.reward("aa", here))).toMatchObject({ value: 1 })
    expect(await valueOf(await registry.reward("bb", here))).toMatchObject({ value: 3 })
  })

  test("a name that means two packages is refused with both, also across folders", async () => {
    await using project = await projectWith(packageFiles("cohort-plugin-aa", { name: "aa", rewards: ["x"] }))
    await using install = await projectWith(packageFiles("@cohort/aa", { name: "aa", rewards: ["x"] }))
    const error = await fails(createRegistry({ ...host, installDirs: [install.dir] }).load("aa", project.dir))
    expect(error.code).toBe("plugin_invalid")
    for (const part of ["@cohort/aa", "cohort-plugin-aa", project.dir, install.dir]) expect(error.message).toContain(part)
  })

  test("two plugins of one name are refused with both origins", async () => {
    await using project = await projectWith({ ...packageFiles("@cohort/aa", { name: "same", rewards: ["x"] }), ...packageFiles("@cohort/bb", { name: "same", rewards: ["x"] }) })
    const registry = createRegistry(host)
    await registry.load("aa", project.dir)
    const error = await fails(registry.load("bb", project.dir))
    expect(error.message).toContain('two plugins are named "same"')
    expect(error.message).toContain("@cohort/aa")
    expect(error.message).toContain("@cohort/bb")
  })

  test("a missing one is told with what, where, what was tried and a near name", async () => {
    await using project = await projectWith({})
    const error = await fails(createRegistry(host).reward("reward-maht", { ...ctx, projectDir: project.dir }, { askedBy: "rewards[0].use" }))
    expect(error.code).toBe("plugin_not_found")
    for (const part of ['"reward-maht"', "rewards[0].use", project.dir, "@cohort/reward-maht", "cohort-plugin-reward-maht", 'Did you mean "reward-math"?']) expect(error.message).toContain(part)
    expect(error.details["tried"]).toEqual(["@cohort/reward-maht", "cohort-plugin-reward-maht", "reward-maht"])
  })

  test("another api version is refused before any of its code runs", async () => {
    await using project = await projectWith({ ...packageFiles("@cohort/aa", { name: "aa", rewards: ["x"], apiVersion: 7 }), "node_modules/@cohort/aa/index.js": "throw new Error('it ran')" })
    const error = await fails(createRegistry(host).load("aa", project.dir))
    expect(error.message).toContain("written for 7, this Cohort runs 1")
    expect(error.message).not.toContain("it ran")
  })

  test("a package that fails to load, exports nothing, or exports something else says so", async () => {
    const files = (name: string, code: string) => ({ ...packageFiles(name, { name, rewards: [] }), [`node_modules/${name}/index.js`]: code })
    await using project = await projectWith({ ...files("aa", "throw new Error('no gpu')"), ...files("bb", "export const reward = 1"), ...files("cc", "export default { name: 'cc' }") })
    const registry = createRegistry(host)
    expect((await fails(registry.load("aa", project.dir))).message).toContain("no gpu")
    expect((await fails(registry.load("bb", project.dir))).message).toContain("no default export, it exports reward")
    expect((await fails(registry.load("cc", project.dir))).message).toContain("not made by definePlugin")
    expect(registry.plugins).toEqual([])
  })

  test("the part must be named where there are several, and must exist", async () => {
    await using project = await projectWith(packageFiles("@cohort/aa", { name: "aa", rewards: ["length", "format"] }))
    const registry = createRegistry(host)
    const here = { ...ctx, projectDir: project.dir }
    expect((await fails(registry.reward("aa", here))).message).toContain("has 2 of kind reward: length, format")
    expect((await fails(registry.reward("aa/lenght", here))).message).toContain('Did you mean "length"?')
    expect((await fails(registry.reward("aa/toString", here))).message).toContain("it has length, format")
    expect((await fails(registry.environment("aa", here))).message).toContain("has no environment; it provides reward length, reward format")
  })
})

describe("paths", () => {
  test("an export by name, the default export, and a plugin in a file", async () => {
    await using project = await projectWith({
      "rewards/mine.ts": "export const length = (rollout: { text: string }) => rollout.text.length\nexport default { scoreGroup: (rollouts: unknown[]) => rollouts.map(() => 7) }",
      "plugin.js": packageFiles("p", { name: "local", rewards: ["x"], value: 5 })["node_modules/p/index.js"]!,
    })
    const registry = createRegistry(host)
    const here = { ...ctx, projectDir: project.dir }
    const length = await registry.reward("./rewards/mine.ts#length", here)
    expect(length.name).toBe("length")
    expect(await valueOf(length)).toEqual({ kind: "ok", value: 4 })
    const main = await registry.reward("./rewards/mine.ts", here)
    expect(main.name).toBe("mine")
    expect(await valueOf(main)).toEqual({ kind: "ok", value: 7 })
    expect(await registry.reward("./plugin.js", here)).toMatchObject({ name: "local" })
    expect(await registry.reward("./plugin.js#x", here)).toMatchObject({ name: "local" })
    expect((await registry.load("./plugin.js", project.dir)).name).toBe("local")
    expect((await fails(registry.reward("./rewards/mine.ts#lenght", here))).message).toContain('it exports default, length. Did you mean "length"?')
    expect((await fails(registry.reward("./none.ts", here, { askedBy: "rewards[1].use" }))).message).toContain('no module "./none.ts" (asked for in rewards[1].use')
  })
})

describe("rewards", () => {
  const registry = createRegistry(host)
  registry.add(definePlugin({ name: "mine", version: "1.0.0", apiVersion: 1, rewards: { short } }))

  test("are set up with validated options; needs may depend on them", async () => {
    const lines: string[] = []
    const loaded = await registry.reward("mine", { ...ctx, log: (line) => lines.push(line) }, { options: { limit: 3 } })
    expect(loaded).toMatchObject({ name: "mine", needs: ["up to 3"], range: [0, 1], deterministic: true })
    expect(await valueOf(loaded)).toEqual({ kind: "ok", value: 0 })
    expect(lines).toEqual(["[mine] ready"])
    expect(await valueOf(await registry.reward("mine/short", ctx))).toEqual({ kind: "ok", value: 1 })
  })

  test("a value outside the range is a failure with the name", async () => {
    expect(await valueOf(await registry.reward("mine", ctx), "bad")).toEqual({ kind: "failed", error: "mine: returned 2, outside its declared range [0, 1]", retryable: false })
  })

  test("all issues of the options come at once", async () => {
    const error = await fails(registry.reward("mine", ctx, { options: { limit: "3", limt: 2 } }))
    expect(error.code).toBe("config_invalid")
    expect(error.message).toContain("options.limt: unknown key")
    expect(error.message).toContain("options.limit: expected a number")
  })

  test("may be a function or a definition written in the config", async () => {
    const inline = await registry.reward(function brevity(rollout) {
      return -rollout.text.length
    }, ctx)
    expect(inline.name).toBe("brevity")
    expect(await valueOf(inline)).toEqual({ kind: "ok", value: -4 })
    expect(await registry.reward(short, ctx, { options: { limit: 5 } })).toMatchObject({ name: "inline-reward", needs: ["up to 5"] })
    expect((await fails(registry.reward(() => 1, ctx, { options: { limit: 1 } }))).message).toContain("takes no options")
    expect((await fails(registry.reward(5 as never, ctx))).message).toContain("is 5, not a reward")
  })

  test("a setup that fails, returns nothing usable, or never ends is told by name", async () => {
    const reward = (setup: () => unknown) => registry.reward(defineReward({ summary: "s", setup: setup as never }), ctx)
    expect((await fails(reward(() => { throw new Error("no key") }))).message).toContain("the setup of inline-reward failed: no key")
    expect((await fails(reward(() => 1))).message).toContain("returned 1; expected a function")
    const stop = new AbortController()
    const hanging = registry.reward(defineReward({ summary: "s", setup: () => new Promise<never>(() => {}) }), { ...ctx, signal: stop.signal })
    stop.abort(new Error("the run stops"))
    expect(await fails(hanging)).toMatchObject({ code: "aborted", message: expect.stringContaining("the run stops") })
  })
})

describe("environments and trackers", () => {
  const rows = { name: "r", size: 1, at: () => ({ id: "0", prompt: "p" }) }

  test("are set up and checked", async () => {
    const registry = createRegistry(host)
    const logged: number[] = []
    registry.add(
      definePlugin({
        name: "kit",
        version: "1",
        apiVersion: 1,
        environments: { good: defineEnvironment({ summary: "s", setup: () => ({ train: rows, heldOut: rows }) }), bad: defineEnvironment({ summary: "s", setup: () => ({}) as never }) },
        trackers: { list: defineTracker({ summary: "s", setup: () => ({ log: (step) => void logged.push(step), close: () => {} }) }) },
      }),
    )
    expect((await registry.environment("kit/good", ctx)).train.size).toBe(1)
    expect((await fails(registry.environment("kit/bad", ctx))).message).toContain("{ train, heldOut }")
    await (await registry.tracker("kit", ctx)).log(3, { loss: 1 })
    expect(logged).toEqual([3])
    expect((await fails(registry.tracker(short as never, ctx))).message).toContain("is a reward, not a tracker")
  })
})

describe("tools and environments alone", () => {
  const add = { description: "Adds.", run: () => 3 }
  const kit = definePlugin({
    name: "kit",
    version: "1",
    apiVersion: 1,
    tools: { sums: defineTools({ summary: "s", options: limitSchema, setup: ({ limit }) => ({ add: { ...add, description: `Adds up to ${limit}.` } }) }), none: defineTools({ summary: "s", setup: () => ({ "two words": add, bare: {} as never }) }) },
    environments: { door: defineEnvironment({ summary: "s", setup: () => () => ({ reset: () => "knock" }) }), rows: defineEnvironment({ summary: "s", setup: () => ({ train: { name: "r", size: 1, at: () => ({ id: "0", prompt: "p" }) }, heldOut: { name: "r", size: 0, at: () => ({ id: "0", prompt: "p" }) } }) }) },
  })

  test("tools come from a plugin with options, as a set, as one tool; wrong ones are named", async () => {
    await using project = await projectWith({
      "tools.ts": `const run = () => 1; export default { one: { description: "One.", run } }; export const other = { description: "Other.", run }; export const wrong = { broken: { run } }`,
    })
    const registry = createRegistry(host)
    registry.add(kit)
    const here = { ...ctx, projectDir: project.dir }
    expect((await registry.tools("kit/sums", here, { options: { limit: 7 } })).tools["add"]?.description).toBe("Adds up to 7.")
    expect((await fails(registry.tools("kit/sums", here, { options: { lmit: 7 } }))).message).toContain("unknown key")
    expect(Object.keys((await registry.tools("./tools.ts", here)).tools)).toEqual(["one"])
    expect(await registry.tools("./tools.ts#other", here)).toMatchObject({ name: "other", tools: { other: { description: "Other." } } })
    expect((await fails(registry.tools("./tools.ts#wrong", here))).message).toContain("broken: expected { description, run }")
    const none = await fails(registry.tools("kit/none", here))
    expect(none.message).toContain('"two words": a tool\'s name')
    expect(none.message).toContain("bare: expected")
    expect(await registry.tools({ add }, here)).toMatchObject({ name: "inline-tools", tools: { add } })
    expect((await fails(registry.tools("kit/door", here))).message).toContain("has no tools")
  })

  test("an environment alone, of a plugin or a bare function, makes one per call; prompts are asked for apart", async () => {
    await using project = await projectWith({ "door.ts": `export default () => ({ reset: () => "who is there" })` })
    const registry = createRegistry(host)
    registry.add(kit)
    const here = { ...ctx, projectDir: project.dir }
    const bare = await registry.environmentFactory("./door.ts", here)
    expect(bare()).not.toBe(bare())
    expect(await bare().reset({ id: "0", prompt: "p" }, { signal: ctx.signal, log: ctx.log, random: ctx.random })).toBe("who is there")
    expect(typeof (await registry.environmentFactory("kit/door", here))).toBe("function")
    expect((await fails(registry.environmentFactory("kit/rows", here))).message).toContain("brings prompts, and no environment")
    expect((await fails(registry.environment("kit/door", here))).message).toContain("brings no prompts")
    expect((await fails(registry.environmentFactory("kit/sums", here))).message).toContain("has no environment")
  })

  test("the manifest lists them", () => expect(provides(kit)).toEqual(["environment:door", "environment:rows", "tools:sums", "tools:none"]))
})

interface ProjectFixture extends AsyncDisposable {
  readonly dir: string
}

/** A project folder with modules in it, so that they are resolved and imported for real; disposal removes it. */
async function projectWith(files: Readonly<Record<string, string>>): Promise<ProjectFixture> {
  const dir = await realpath(await mkdtemp(join(tmpdir(), "cohort-plugin-")))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), text)
  }
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) }
}

/** Files of an installed package whose plugin has one reward per name, each giving `value`. */
function packageFiles(name: string, plugin: { readonly name: string; readonly rewards: readonly string[]; readonly value?: number; readonly apiVersion?: number }): Record<string, string> {
  const folder = `node_modules/${name}`
  return {
    [`${folder}/package.json`]: JSON.stringify({ name, version: "1.0.0", type: "module", exports: "./index.js", cohort: { apiVersion: plugin.apiVersion ?? 1 } }),
    // Made without @cohort/plugin, as another copy of it would have made it.
    [`${folder}/index.js`]: `
      const brand = Symbol.for("cohort.plugin")
      const reward = (name) => ({ summary: name, setup: () => () => ${plugin.value ?? 1}, [brand]: { kind: "reward", apiVersion: 1 } })
      export default {
        name: ${JSON.stringify(plugin.name)}, version: "1.0.0", apiVersion: 1, [brand]: { kind: "plugin", apiVersion: 1 },
        rewards: Object.fromEntries(${JSON.stringify(plugin.rewards)}.map((name) => [name, reward(name)])),
      }`,
  }
}
