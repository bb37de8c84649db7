// Rows that choose their environment, in a real run: config, files, tokenizer and its template, engine over HTTP, trainer.
import { expect } from "bun:test"
import { cp, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { openTokenizer } from "@cohort/tokenizer"
import { errorOf, faultyRun, type Patch, readFolder, repository, summaryOf, temporaryFolder, testRun } from "./faulty-run.ts"
import { scriptedEngine } from "./scripted-engine.ts"

const minute = 60_000
const base = join(repository, "models/arithmetic-1m")
const tokenizer = openTokenizer(base)

const template = `{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool.function.name + ' ' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content }}{% for call in message.tool_calls or [] %}{{ '<tool_call>' + ({"name": call.function.name, "arguments": call.function.arguments} | tojson) + '</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`

const worlds = `
  import { methodsAsTools } from ${JSON.stringify(join(repository, "packages/env/src/index.ts"))}
  class Counter {
    count = 0
    tools = methodsAsTools(this, { up: { description: "Counts up." } })
    reset() { return "go" }
    up() { return ++this.count }
    score() { return this.count }
  }
  export const counter = () => new Counter()
  export const echo = () => ({ reset() {}, respond: ({ turn }) => (turn === 0 ? { messages: [{ role: "user", content: "more" }] } : { done: true }), score: () => Math.random() })
`

/** A model folder whose template shows tools, prompts, environments, and the config over them. */
async function project(rows: readonly object[]): Promise<Patch> {
  const dir = await temporaryFolder()
  const model = join(dir, "model")
  await mkdir(model)
  await cp(base, model, { recursive: true })
  await writeFile(join(model, "chat_template.jinja"), template)
  await writeFile(join(dir, "worlds.ts"), worlds)
  await writeFile(join(dir, "rows.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"))
  return {
    model: { path: model },
    data: { source: join(dir, "rows.jsonl"), evalSource: join(dir, "rows.jsonl"), options: {}, maxPromptTokens: 160 },
    environments: ["counter", "echo"].map((name) => ({ name, use: `${join(dir, "worlds.ts")}#${name}` })),
    rewards: [],
    rollout: { maxCompletionTokens: 60, groupSize: 2 },
    train: { steps: 2, completionsPerStep: 8 },
    transfer: { kind: "none" },
    staleness: { maxSteps: 8 },
  }
}

testRun("each row lives in the environment that it names, sees its tools and is scored by it; the run trains both", async () => {
  const prompts: string[] = []
  await using engine = await scriptedEngine((seed, promptIds) => {
    const prompt = tokenizer.decode(Int32Array.from(promptIds))
    if (!prompts.includes(prompt)) prompts.push(prompt)
    const calls = prompt.split("<tool_call>").length - 1
    return [...tokenizer.encode(prompt.includes("up ") && calls < 1 + (seed % 2) ? '<tool_call>{"name": "up"}</tool_call>' : "done")]
  }, 320)
  const patch = await project([{ prompt: "a", environment: "counter" }, { prompt: "b", environment: "echo" }])
  const run = await faultyRun({ patch: { ...patch, inference: { urls: [engine.url] } } })
  const summary = await summaryOf(run)
  expect(summary.steps).toBe(2)
  // Evaluated in their environments too: what the counter scores is at least 1, what the other scores is below.
  expect(summary.evalBefore?.prompts).toBe(2)
  expect(summary.evalBefore?.examples.map(({ reward }) => (reward ?? 0) >= 1)).toEqual([true, false])
  const left = readFolder(run.dir)
  expect(left.violations).toEqual([])
  const metrics = run.updates.flatMap((update) => (update.kind === "step" ? [update.report.metrics] : []))
  expect(metrics.some((step) => step["tools/calls"]! > 0 && step["tools/failures"] === 0)).toBe(true)
  expect(metrics.some((step) => step["ended/environment"]! > 0)).toBe(true)
  const [counted, spoken] = [prompts.filter((prompt) => prompt.includes("user\nago")), prompts.filter((prompt) => prompt.includes("user\nb<|im_end|>"))]
  expect(counted.length).toBeGreaterThan(0)
  expect(counted.every((prompt) => prompt.startsWith("<|im_start|>system\nup <|im_end|>"))).toBe(true)
  expect(counted).toContain('<|im_start|>system\nup <|im_end|>\n<|im_start|>user\nago<|im_end|>\n<|im_start|>assistant\n<tool_call>{"name": "up"}</tool_call><|im_end|>\n<|im_start|>tool\n1<|im_end|>\n<|im_start|>assistant')
  expect(spoken.toSorted()).toEqual(["<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant", "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\ndone<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant"])
}, 2 * minute)

testRun("a row that names no environment of the run ends it before anything is started, typed, with the row", async () => {
  const run = await faultyRun({ patch: await project([{ prompt: "a", environment: "counter" }, { prompt: "b", environment: "ehco" }]) })
  const error = await errorOf(run)
  expect(error.code).toBe("dataset_invalid")
  expect(error.message).toBe('row 1 asks for environment "ehco"')
  expect(error.hint).toBe("Known are: counter, echo.")
}, minute)
