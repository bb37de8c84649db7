import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { runCli } from "./cli.ts"
import { root } from "./commands/all.ts"
import { testShell } from "./testing.ts"

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-cli-"))
})
afterAll(() => rm(dir, { recursive: true }))

async function cli(line: string, env: Record<string, string> = {}) {
  const shell = testShell({ cwd: dir, env })
  const code = await runCli(line === "" ? [] : line.split(" "), shell)
  return { code, out: shell.stdout.text, err: shell.stderr.text }
}

const write = (name: string, text: string): Promise<void> => writeFile(join(dir, name), text)

/** Every command as one types it: `config show`. */
async function allCommands(): Promise<string[]> {
  const names: string[] = []
  for (const [name, load] of Object.entries(root.commands)) {
    const found = await load()
    if ("commands" in found) names.push(...Object.keys(found.commands).map((sub) => `${name} ${sub}`))
    names.push(name)
  }
  return names
}

test("every command has a help page that fits, and names its flags", async () => {
  for (const name of await allCommands()) {
    const { code, out, err } = await cli(`${name} --help`)
    expect([name, code, err]).toEqual([name, 0, ""])
    expect(out).toContain(`Usage: cohort ${name}`)
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(name === "serve" ? 90 : 80)
    expect(out).not.toContain("\u001B")
  }
})

test("no command, an unknown one, an unknown flag: exit code 2 and where to look", async () => {
  expect(await cli("")).toMatchObject({ code: 2, out: "", err: expect.stringContaining("quickstart") })
  expect(await cli("config")).toMatchObject({ code: 2, out: "", err: expect.stringContaining("schema") })
  expect(await cli("trian")).toEqual({ code: 2, out: "", err: `error: unknown command "trian"\n  cohort has the commands ${Object.keys(root.commands).join(", ")}.\n` })
  expect(await cli("constructor")).toMatchObject({ code: 2 })
  expect(await cli("config schema --jsn")).toMatchObject({ code: 2, err: "error: unknown flag --jsn\n  See: cohort config schema --help\n" })
  expect(await cli("config show")).toMatchObject({ code: 2, err: expect.stringMatching(/^error: .*FILE[\s\S]*See: cohort config show --help/) })
  expect(await cli("train")).toMatchObject({ code: 2, err: expect.stringContaining("no config file") })
})

test("version", async () => {
  const { version } = await Bun.file(join(import.meta.dir, "../package.json")).json()
  expect(await cli("--version")).toEqual({ code: 0, out: `${version}\n`, err: "" })
})

test("a config with ten mistakes lists all ten, whatever the command", async () => {
  const mistakes = ["seed", "model.lora.rank", "data.source", "data.maxPromptTokens", "rollout.groupSize", "rollout.tempature", "train.steps", "train.learning_rate", "staleness.policy", "inference.urls"]
  await write(
    "ten.toml",
    `seed = -1
[model]
path = "m"
lora = { rank = 0 }
[data]
source = 3
maxPromptTokens = 0
[rollout]
groupSize = 1
tempature = 0.5
[train]
steps = "many"
learning_rate = 1e-5
[staleness]
policy = "forget"
[inference]
urls = ["not an address"]
`,
  )
  for (const command of ["config check ten.toml", "config show ten.toml", "train ten.toml"]) {
    const { code, out, err } = await cli(command)
    expect({ code, out }).toEqual({ code: 2, out: "" })
    expect(err).toStartWith("error: 10 problems in the configuration:\n")
    for (const path of mistakes) expect(err).toContain(`\n  ${path}`)
  }
})

test("flags go over the environment, the environment over the file", async () => {
  await write("run.toml", '[model]\npath = "m"\n[data]\nsource = "env-arithmetic"\n[train]\nsteps = 7\nlearningRate = 1e-5\n')
  const { code, out } = await cli("config show run.toml --train.steps 9 --json", { COHORT__TRAIN__STEPS: "8", COHORT__TRAIN__LEARNING_RATE: "2e-5" })
  const { config, origins } = JSON.parse(out)
  expect(code).toBe(0)
  expect(config.train).toMatchObject({ steps: 9, learningRate: 2e-5 })
  expect(origins).toMatchObject({ "train.steps": "flag --train.steps", "data.source": "file run.toml:data.source", "train.beta1": "default" })
})

test("config show prints TOML that loads again", async () => {
  const shown = await cli("config show run.toml --train.steps 9")
  await write("again.toml", shown.out)
  const [first, second] = [await cli("config show run.toml --train.steps 9 --json"), await cli("config show again.toml --json")]
  expect(JSON.parse(second.out).config).toEqual(JSON.parse(first.out).config)
})

test("config check names what is not there, all at once", async () => {
  await write("parts.toml", '[model]\npath = "nowhere"\n[data]\nsource = "missing.jsonl"\n[[rewards]]\nuse = "reward-maths"\n[[rewards]]\nuse = "reward-math"\noptions = { strickt = true }\n')
  const { code, err } = await cli("config check parts.toml")
  expect(code).toBe(2)
  expect(err).toStartWith("error: 4 problems")
  for (const part of ["model.path", "nowhere", "missing.jsonl", "rewards[0].use", "reward-math", "strickt"]) expect(err).toContain(part)
})

test("config check passes what could start", async () => {
  await mkdir(join(dir, "m"), { recursive: true })
  await write("m/config.json", "{}")
  await write("m/tokenizer.json", "{}")
  expect(await cli('config check run.toml --rewards [{"use":"reward-math"}]')).toEqual({ code: 0, out: "run.toml: no problems\n", err: "" })
})

test("the schema is JSON and knows the settings", async () => {
  const { code, out } = await cli("config schema")
  expect(code).toBe(0)
  expect(JSON.parse(out).properties.train.properties.learningRate.default).toBe(1e-6)
})

test("the quickstart's shortcuts are settings, and are told as flags", async () => {
  const { code, err, out } = await cli("quickstart --config-only --steps 3 --max-staleness 0 --seconds 20 --seed 5 --rollout.groupSize 4")
  // The starting model is made elsewhere: without it this is the message to see.
  if (err.includes("starting model")) return expect(code).toBe(1)
  expect(code).toBe(0)
  expect(Bun.TOML.parse(out)).toMatchObject({ seed: 5, train: { steps: 3, maxSeconds: 20 }, staleness: { maxSteps: 0 }, rollout: { groupSize: 4 } })
  expect(out).toMatch(/train\.steps = 3 +# flag --train\.steps/)
})

test("init writes a config that the settings accept, and never over a file", async () => {
  const { code, out } = await cli("init mine.toml")
  expect(code).toBe(0)
  expect(out).toContain("cohort train mine.toml")
  expect((await cli("config show mine.toml --json")).code).toBe(0)
  expect((await cli("config check mine.toml")).err).toStartWith("error: 2 problems with what the configuration names:\n  model.path")
  await write("mine.toml", "mine")
  expect(await cli("init mine.toml")).toMatchObject({ code: 2, err: expect.stringContaining("is there already") })
  expect(await Bun.file(join(dir, "mine.toml")).text()).toBe("mine")
  expect(await cli("init mine.yaml")).toMatchObject({ code: 2 })
})

test("options of TRL become a config that loads", async () => {
  await write("args.yaml", "num_generations: 4\nlearning_rate: 1.0e-5\nfp16: true\n")
  const { code, out } = await cli("config from-trl args.yaml --trainer grpo")
  expect(code).toBe(0)
  await write("trl.toml", out)
  const shown = await cli("config show trl.toml --json --model.path m --data.source env-arithmetic")
  expect(JSON.parse(shown.out).config).toMatchObject({ rollout: { groupSize: 4 }, train: { learningRate: 1e-5 } })
  expect(await cli("config from-trl nothere.yaml")).toMatchObject({ code: 2, err: expect.stringContaining("no file at nothere.yaml") })
  expect(await cli("config from-trl args.yaml --trainer dpo")).toMatchObject({ code: 2, err: expect.stringContaining("async or grpo") })
})

test("runtime info needs no runtime", async () => {
  const env = { COHORT_CACHE: join(dir, "empty") }
  const { code, out } = await cli("runtime info --json", env)
  expect(code).toBe(0)
  expect(JSON.parse(out)).toMatchObject({ cacheDir: join(dir, "empty") })
  expect((await cli("runtime info", env)).out).toContain("cohort runtime install")
  expect(await cli("runtime install --kind tpu", env)).toMatchObject({ code: 2, err: expect.stringContaining('--kind is "tpu"') })
})

test("serve refuses wrong numbers, a folder that is no model, and a taken port before it loads anything", async () => {
  expect(await cli("serve m --port 99999")).toMatchObject({ code: 2, err: expect.stringContaining("from 0 to 65535") })
  expect(await cli("serve m --dtype f16")).toMatchObject({ code: 2, err: expect.stringContaining("auto, f32, bf16") })
  expect(await cli("serve nowhere")).toMatchObject({ code: 1, err: expect.stringContaining("there is no folder") })
  expect(await cli("serve .")).toMatchObject({ code: 1, err: expect.stringContaining(". is no model folder: there is no") })
  using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  expect(await cli(`serve m --port ${taken.port}`)).toMatchObject({ code: 1, err: expect.stringContaining(`Port ${taken.port} on 127.0.0.1 is already in use`) })
})

test("a file of the user's that throws is told without a stack, with COHORT_DEBUG with one", async () => {
  await write("bad.ts", 'throw new Error("from the config")')
  const { code, err } = await cli("config show bad.ts")
  expect(code).toBe(2)
  expect(err).toContain("from the config")
  expect(err).not.toMatch(/\n\s+at /)
  await write("bad2.ts", 'throw new Error("from the config")')
  expect((await cli("config show bad2.ts", { COHORT_DEBUG: "1" })).err).toMatch(/\n\s+at /)
})
