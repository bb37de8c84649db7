import { expect, test } from "bun:test"
import { callTool, createRegistry, systemHost, toolParameters } from "@cohort/plugin"
import { conformance, fakeSetupContext } from "@cohort/plugin/testing"
import manifest from "./package.json"
import plugin from "./plugin.ts"
import safe from "./safe.ts"

const ctx = fakeSetupContext()

test("conforms to the plugin contract", async () => {
  expect(await conformance(plugin, { manifest })).toEqual({ problems: [], ran: ["environments.safe", "tools.calculator"] })
})

test("the safe opens at its digit and scores how soon", async () => {
  const one = safe()
  expect(one.reset({ id: "0", prompt: "Open the safe.", code: 7 })).toContain("digits")
  const turn = (to: number) => callTool(one.tools["turn"]!, { to }, ctx)
  expect([await turn(5), await turn(9), await turn(7)]).toEqual(["Nothing happens: the digit is higher.", "Nothing happens: the digit is lower.", "It opens."])
  expect(one.score()).toBeCloseTo(1 / 3)
  expect(safe().score()).toBe(0)
})

test("tools check their arguments, tell the model their parameters, and are named by path", async () => {
  const { tools } = await createRegistry(systemHost()).tools("./tools.ts#calculator", { ...ctx, projectDir: import.meta.dir })
  expect(toolParameters(tools["multiply"]!)).toMatchObject({ type: "object", required: ["a", "b"], properties: { a: { type: "number" } } })
  expect(await callTool(tools["multiply"]!, { a: 6, b: 7 }, ctx)).toBe(42)
  expect(() => callTool(tools["multiply"]!, { a: "6", b: 7 }, ctx)).toThrow("a: Invalid type")
  expect(() => callTool(tools["divide"]!, { a: 6, b: 0 }, ctx)).toThrow("b is 0")
})
