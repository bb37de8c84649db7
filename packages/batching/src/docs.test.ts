import { expect, test } from "bun:test"
import { batchingMarkdown } from "../scripts/markdown.ts"

test("docs/objectives/batching.md is up to date (bun run docs)", async () => {
  expect(await Bun.file(new URL("../../../docs/objectives/batching.md", import.meta.url)).text()).toBe(batchingMarkdown())
})
