import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { ambientUses, filesWithoutOpening, indexesWithCode, longFiles, machinePaths } from "./check-sources.ts"
import { edges } from "./edges.ts"
import { filesBelow, type Kind, readWorkspaces, root, type Workspace } from "./workspace.ts"

const workspaces = readWorkspaces()

function made(kind: Kind, sources: Record<string, string>): Workspace {
  const files = Object.entries(sources).map(([path, text]) => ({ path, text, shipped: true, imports: [] }))
  return { folder: "made", path: `${kind}s/made`, kind, manifest: { name: "@cohort/made", version: "0.0.0" }, readme: undefined, files }
}

test("index.ts only re-exports", () => {
  expect(indexesWithCode(workspaces)).toEqual([])
  const fine = `// What it is.\nexport * from "./a.ts"\nexport {\n  b,\n  type C,\n} from "./b.ts"\nexport * as d from "./d.ts"\n`
  expect(indexesWithCode([made("package", { "src/index.ts": fine, "src/x/index.ts": `${fine}export const e = 1\n` })])).toEqual(["packages/made/src/x/index.ts does more than re-export"])
})

test("core logic takes clock, chance, environment and network as arguments", () => {
  expect(ambientUses(workspaces, edges)).toEqual([])
  const sources = {
    "src/core.ts": `const at = Date.now()\n\nconst id = Math.random()\n`,
    "src/edge.ts": "export const systemNow = () => Date.now()\n",
    "src/fine.ts": `/** @example open({ now: Date.now, env: process.env }) */\nconst answer = await options.fetch("x") // not fetch(x)\n`,
  }
  expect(ambientUses([made("package", sources), made("app", sources)], { "packages/made/src/edge.ts": ["clock", "network"] })).toEqual([
    "packages/made/src/core.ts:1 reads the clock itself; take it as an argument, or name the file in test/architecture/edges.ts",
    "packages/made/src/core.ts:3 reads the chance itself; take it as an argument, or name the file in test/architecture/edges.ts",
    "test/architecture/edges.ts lets packages/made/src/edge.ts read the network, which it does not",
  ])
})

test("long files say why", () => {
  expect(longFiles(workspaces)).toEqual([])
  const body = "x\n".repeat(400)
  expect(longFiles([made("package", { "src/a.ts": `// A.\n${body}`, "src/b.ts": `// B. Long because it is one table.\n${body}`, "src/c.ts": body })])).toEqual([
    'packages/made/src/a.ts has 401 lines and no "Long because ..." in its opening comment',
  ])
})

test("published files open with what they are", () => {
  expect(filesWithoutOpening(workspaces)).toEqual([])
  expect(filesWithoutOpening([made("package", { "src/a.ts": "#!/usr/bin/env bun\n// A.\n", "src/b.ts": "export {}\n" })])).toEqual(["packages/made/src/b.ts does not open with a comment that says what it is"])
})

test("no path of anybody's machine is written down", () => {
  const folders = ["packages", "plugins", "apps", "test", "bench", "models", "scripts", "examples", "docs"]
  const everything = [
    ...folders.flatMap((folder) => filesBelow(folder, new Set(["node_modules", "dist", ".turbo", "runs"])).map((file) => `${folder}/${file}`)),
    ...filesBelow("", new Set([...folders, "node_modules", ".git", ".turbo", "runs", ".cohort"])),
  ]
  const texts = everything.filter((file) => /\.(?:tsx?|jsx?|json|jsonl|toml|ya?ml|md|py|sh|html|css)$|\/run$/.test(file))
  expect(texts.length).toBeGreaterThan(300)
  expect(machinePaths(texts.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })))).toEqual([])
  const folder = ["", "home", "ann", "cohort"].join("/")
  expect(machinePaths([{ path: "a.md", text: `one\nsee ${folder}/x\nhttps://host${folder}` }])).toEqual([`a.md:2 names the machine path ${["", "home", "ann"].join("/")}`])
})
