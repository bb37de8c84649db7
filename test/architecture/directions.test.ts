import { expect, test } from "bun:test"
import { dependencyMismatches, deepImports, forbiddenArrows, heavyAuthorPackages } from "./check-imports.ts"
import { importsOf } from "./imports.ts"
import { type Kind, type Manifest, readWorkspaces, type Workspace } from "./workspace.ts"

const workspaces = readWorkspaces()

/** A workspace of one or more files, to show that each rule can fail. */
function made(kind: Kind, folder: string, sources: Record<string, string>, manifest: Partial<Manifest> = {}): Workspace {
  return {
    folder,
    path: `${kind}s/${folder}`,
    kind,
    manifest: { name: `@cohort/${folder}`, version: "0.0.0", exports: { ".": "./src/index.ts" }, ...manifest },
    readme: undefined,
    files: Object.entries(sources).map(([path, text]) => ({ path, text, shipped: path.startsWith("src/") && !path.endsWith(".test.ts"), imports: importsOf(text) })),
  }
}

test("finds the workspace", () => {
  expect(workspaces.filter(({ kind }) => kind === "package").length).toBeGreaterThanOrEqual(17)
  expect(workspaces.filter(({ kind }) => kind === "plugin").length).toBeGreaterThanOrEqual(3)
  expect(workspaces.flatMap(({ files }) => files).filter(({ shipped }) => shipped).length).toBeGreaterThan(200)
})

test("imports follow the table of directions", () => {
  expect(forbiddenArrows(workspaces)).toEqual([])
})

test("a wrong arrow is found, in types too; tests may import more, but no app", () => {
  const cli = made("app", "cli", {})
  const found = forbiddenArrows([
    cli,
    made("package", "loss", { "src/a.ts": `import type { Sample } from "@cohort/batching"`, "src/a.test.ts": `import "@cohort/rollout"; import "@cohort/cli"` }),
    made("plugin", "reward-x", { "src/a.ts": `import { CohortError } from "@cohort/errors"; import "@cohort/plugin"` }),
    made("plugin", "other-x", {}),
    made("package", "newcomer", {}),
    made("package", "client", { "src/a.ts": `import type { Routes } from "@cohort/control-plane"` }),
    made("app", "control-plane", {}),
    made("private", "test", { "a.ts": `import "@cohort/cli"` }),
  ])
  expect(found).toEqual([
    "packages/loss/src/a.ts imports @cohort/batching, which loss may not",
    "packages/loss/src/a.test.ts imports the app @cohort/cli",
    "plugins/reward-x/src/a.ts imports @cohort/errors, which reward-x may not",
    "plugins/other-x is not in test/architecture/directions.ts",
    "packages/newcomer is not in test/architecture/directions.ts",
  ])
})

test("no file reaches past what a package exports", () => {
  expect(deepImports(workspaces)).toEqual([])
  const env = made("package", "env", { "src/a/b.ts": `import "../../../plugin/src/x.ts"; import "../c.ts"` })
  const plugin = made("package", "plugin", { "src/a.ts": `import "@cohort/env"; import "@cohort/env/src/a.ts"` })
  expect(deepImports([env, plugin])).toEqual([
    "packages/env/src/a/b.ts reaches into another workspace: ../../../plugin/src/x.ts",
    "packages/plugin/src/a.ts imports @cohort/env/src/a.ts, which @cohort/env does not export",
  ])
})

test("manifests name what is imported, and nothing else", () => {
  expect(dependencyMismatches(workspaces)).toEqual([])
  const files = { "src/a.ts": `import "x"; import "node:fs"; import "@s/y/z"`, "src/a.test.ts": `import "t"; import "x"` }
  expect(dependencyMismatches([made("package", "a", files, { dependencies: { x: "1", unused: "1" }, devDependencies: { "@s/y": "1", "@types/bun": "1", idle: "1" } })])).toEqual([
    "packages/a imports @s/y but does not name it in dependencies",
    "packages/a imports t in tests or scripts but does not name it",
    "packages/a names unused in dependencies but no published file imports it",
    "packages/a names @s/y in devDependencies but no test or script imports it",
    "packages/a names idle in devDependencies but no test or script imports it",
  ])
})

test("what plugin authors install brings types of others only", () => {
  expect(heavyAuthorPackages(workspaces)).toEqual([])
  expect(heavyAuthorPackages([made("package", "env", { "src/a.ts": `import "valibot"; import { x } from "@standard-schema/spec"; console.log(x)` })])).toEqual([
    "packages/env/src/a.ts imports valibot",
    "packages/env/src/a.ts imports @standard-schema/spec as a value: types only",
  ])
})

test("this workspace depends on all others, so that turbo runs it again when one changes", () => {
  const { dependencies } = workspaces.find(({ path }) => path === "test")!.manifest
  const names = workspaces.filter(({ kind }) => kind === "package" || kind === "plugin" || kind === "app").map(({ manifest }) => manifest.name)
  expect(names.filter((name) => dependencies?.[name] === undefined)).toEqual([])
})
