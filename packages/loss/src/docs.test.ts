import { expect, test } from "bun:test"
import { objectiveDocs } from "../scripts/markdown.ts"
import { objectivePages } from "../scripts/pages.ts"
import { objectives } from "./objectives/registry.ts"

const folder = new URL("../../../docs/objectives/", import.meta.url)

test("docs/objectives is up to date (bun run docs) and has a page for each objective", async () => {
  expect(Object.keys(objectivePages).toSorted()).toEqual(Object.keys(objectives).toSorted())
  for (const [name, text] of objectiveDocs()) expect(await Bun.file(new URL(name, folder)).text()).toBe(text)
})
