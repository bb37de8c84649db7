import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { manifestProblems } from "./check-manifests.ts"
import { type Manifest, readWorkspaces, root, type Workspace } from "./workspace.ts"

const version = (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest).version
const workspaces = readWorkspaces()

test("every package can be published as it is", () => {
  expect(manifestProblems(workspaces, version)).toEqual([])
})

const good = workspaces.find(({ folder }) => folder === "env")!

/** The env package with parts of its manifest changed. */
function changed(parts: Partial<Manifest>, rest: Partial<Workspace> = {}): readonly string[] {
  return manifestProblems([{ ...good, ...rest, manifest: { ...good.manifest, ...parts } }], version)
}

test("what npm shows is required", () => {
  expect(changed({ version: "9.9.9", description: "", license: "MIT", files: ["src"] }, { readme: undefined })).toEqual([
    `packages/env/package.json has version 9.9.9; all packages have ${version}`,
    "packages/env/package.json has no license: Apache-2.0",
    "packages/env/package.json has no description",
    "packages/env/package.json does not publish dist and src without tests",
    "packages/env has no README.md",
  ])
})

test("exports must exist, with their built files, in the order that is taken", () => {
  const entry = (source: string, built: string): Readonly<Record<string, string>> => ({ bun: source, types: `${built}.d.ts`, default: `${built}.js` })
  const problems = changed({
    exports: {
      ".": { types: "./dist/index.d.ts", bun: "./src/index.ts", default: "./dist/index.js" },
      "./gone": entry("./src/gone.ts", "./dist/gone"),
      "./other": entry("./src/index.ts", "./dist/other"),
      "./package.json": "./package.json",
    },
  })
  expect(problems).toEqual([
    "packages/env/package.json exports . with types, bun, default; it is bun, types, default, in this order",
    "packages/env/package.json exports ./gone as ./src/gone.ts, which does not exist",
    "packages/env/package.json exports ./other with built files that are not those of ./src/index.ts",
  ])
})

test("versions come from the workspace or the catalog", () => {
  expect(changed({ dependencies: { "@cohort/errors": "0.1.0", valibot: "^1.0.0" }, devDependencies: {} })).toEqual([
    "packages/env/package.json takes @cohort/errors as 0.1.0; it is workspace:*",
    "packages/env/package.json takes valibot as ^1.0.0; it is catalog:",
  ])
})
