// The config lines on the pages of docs/objectives must be ones that a run takes.
import { expect, test } from "bun:test"
import { loadConfig } from "./load.ts"
import { minimalFlags, sourcesOf } from "./testing.ts"

const folder = new URL("../../../docs/objectives/", import.meta.url)
const pages = [...new Bun.Glob("*.md").scanSync(folder.pathname)].filter((name) => name !== "README.md" && name !== "metrics.md" && name !== "batching.md").toSorted()

test.each(pages)("%s", async (name) => {
  const text = await Bun.file(new URL(name, folder)).text()
  const block = /```toml\n([^`]+)```/.exec(text)?.[1]
  expect(block).toBeDefined()
  const { config } = await loadConfig(sourcesOf({ file: "page.toml", text: block!, flags: minimalFlags }))
  const kind = /objective\.kind = "(\w+)"/.exec(block!)?.[1]
  if (kind !== undefined) expect(config.objective.kind).toBe(kind as typeof config.objective.kind)
  if (kind !== undefined) expect(name).toBe(`${kind}.md`)
})
