import { expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { loadConfig } from "@cohort/config"
import { filesBelow, root } from "../architecture/workspace.ts"
import { withMetricTables } from "./glossary.ts"
import { anchorOf, brokenLinks, type Page } from "./links.ts"

const read = (path: string): Page => ({ path, text: readFileSync(join(root, path), "utf8") })
const skip = new Set(["node_modules", "dist", ".turbo", ".git", "runs", "fixtures", ".cohort"])
const pages = filesBelow("", skip)
  .filter((path) => path.endsWith(".md"))
  .map(read)

test("docs/glossary.md is up to date (bun run docs)", () => {
  const { text } = read("docs/glossary.md")
  expect(text).toBe(withMetricTables(text))
  expect(text).toContain("| `grad_norm` |")
  expect(() => withMetricTables("no markers")).toThrow("must hold")
})

test("every link inside the repository leads somewhere", () => {
  expect(pages.length).toBeGreaterThan(25)
  expect(brokenLinks(pages, (path) => existsSync(join(root, path)))).toEqual([])
  const page = (text: string): readonly string[] => brokenLinks([{ path: "docs/a.md", text }, { path: "b.md", text: "# The `x` of it" }], (path) => path !== "docs/gone.md")
  expect(page("[a](gone.md) [b](../b.md#the-x-of-it) [c](https://host/x)\n```\n[d](gone.md)\n```\n[e](#here)\n## Here\n[f](../b.md#no)")).toEqual([
    "docs/a.md links to gone.md, which does not exist",
    "docs/a.md links to ../b.md#no, but there is no such heading",
  ])
  expect(anchorOf("What `a/b` does, and why")).toBe("what-ab-does-and-why")
})

test("every page of docs is in its index", () => {
  const index = read("docs/README.md").text
  const missing = pages.map(({ path }) => path).filter((path) => /^docs\/(?!README\.md|objectives\/).*\.md$/.test(path) && !index.includes(`(${path.slice("docs/".length)})`))
  expect(missing).toEqual([])
})

/** Fenced blocks of one language. */
const blocks = ({ text }: Page, language: string): readonly string[] => [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map((match) => match[1]!)

test("settings shown in README and guides are settings of a run", async () => {
  const shown = pages.filter(({ path }) => path === "README.md" || path.startsWith("docs/guides/")).flatMap((page) => blocks(page, "toml").map((text) => ({ path: page.path, text })))
  expect(shown.length).toBeGreaterThanOrEqual(4)
  // What every run must have; a page shows the part that it is about.
  const least = { model: { path: "m" }, data: { source: "d.jsonl" }, rewards: ["r"] }
  for (const { path, text } of shown) {
    const part = Bun.TOML.parse(text) as Record<string, unknown>
    const file = JSON.stringify({ ...least, ...part })
    await expect(loadConfig({ file: "page.json", flags: [], readText: () => Promise.resolve(file), importModule: () => Promise.reject(new Error("no module is named")) }).then(() => path)).resolves.toBe(path)
  }
})

test("commands shown in README, CONTRIBUTING and guides are scripts of the root", () => {
  const { scripts } = JSON.parse(read("package.json").text) as { scripts: Record<string, string> }
  const named = pages
    .filter(({ path }) => /^(?:README|CONTRIBUTING)\.md$|^docs\//.test(path))
    .flatMap(({ path, text }) => [...text.matchAll(/\bbun(?:@[\d.]+)? run ([a-z][\w:-]*)(?![\w./-])/g)].map((match) => ({ path, script: match[1]! })))
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter(({ script }) => scripts[script] === undefined)).toEqual([])
})
