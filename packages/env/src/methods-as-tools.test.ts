import { expect, test } from "bun:test"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Environment, EpisodeContext } from "./environment.ts"
import { methodsAsTools } from "./methods-as-tools.ts"
import { callTool, toolParameters } from "./tool.ts"

const ctx: EpisodeContext = { signal: new AbortController().signal, random: () => 0.5, log: () => undefined }
const timesSchema = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => {
      const { times } = value as { readonly times?: unknown }
      return typeof times === "number" ? { value: { times } } : { issues: [{ message: "expected a number", path: ["times"] }] }
    },
    jsonSchema: { input: () => ({ $schema: "s", type: "object", properties: { times: { type: "number" } }, required: ["times"] }), output: () => ({}) },
  },
} satisfies StandardSchemaV1<unknown, { readonly times: number }> & { readonly "~standard": { readonly jsonSchema: unknown } }

class Door implements Environment {
  #turned = 0
  readonly tools = methodsAsTools(this, {
    turn: { description: "Turns the key.", input: timesSchema, timeoutMs: 50 },
    knock: { description: "Knocks." },
  })
  reset() {}
  turn({ times }: { readonly times: number }) {
    this.#turned += times
    return { turned: this.#turned }
  }
  async knock() {}
  score() {
    return this.#turned
  }
}

test("methods keep their object: each environment's tools change its own state, which it scores", async () => {
  const [one, other] = [new Door(), new Door()]
  expect(Object.keys(one.tools)).toEqual(["turn", "knock"])
  expect(await callTool(one.tools["turn"]!, { times: 2 }, ctx)).toEqual({ turned: 2 })
  expect(await callTool(one.tools["turn"]!, { times: 1 }, ctx)).toEqual({ turned: 3 })
  expect(await callTool(other.tools["knock"]!, {}, ctx)).toBeNull()
  expect([one.score(), other.score()]).toEqual([3, 0])
})

test("arguments are checked before the method sees them; the schema tells its parameters, hand-written ones win", async () => {
  const { tools } = new Door()
  expect(() => callTool(tools["turn"]!, { times: "3" }, ctx)).toThrow("times: expected a number")
  expect(toolParameters(tools["turn"]!)).toEqual({ type: "object", properties: { times: { type: "number" } }, required: ["times"] })
  expect(toolParameters(tools["knock"]!)).toEqual({ type: "object", properties: {} })
  expect(toolParameters({ input: timesSchema, parameters: { type: "object" } })).toEqual({ type: "object" })
})

test("what the run calls itself, and what is no method, is refused by name", () => {
  const door = new Door()
  expect(() => methodsAsTools(door, { score: { description: "" } })).toThrow('"score" cannot be a tool: the run itself calls it')
  expect(() => methodsAsTools({} as Door, { knock: { description: "" } })).toThrow('"knock" cannot be a tool: it is no method')
})
