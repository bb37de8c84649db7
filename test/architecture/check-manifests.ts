// The rules about package.json files: what npm shows, what is published, and that every exported path is there.
import { existsSync } from "node:fs"
import { join } from "node:path"
import { type ExportTarget, type Manifest, root, type Workspace } from "./workspace.ts"

type Exists = (path: string) => boolean

const inRepository: Exists = (path) => existsSync(join(root, path))

/** The parts of one export that a consumer would fall over. */
function exportProblems(at: string, key: string, target: ExportTarget, exists: (path: string) => boolean): readonly string[] {
  if (key === "./package.json") return target === "./package.json" ? [] : [`${at} exports ./package.json as ${JSON.stringify(target)}`]
  if (typeof target === "string") return [`${at} exports ${key} as one path; give bun, types and default`]
  const conditions = Object.keys(target).join(", ")
  // The order is the meaning: the first condition that holds is taken.
  if (conditions !== "bun, types, default") return [`${at} exports ${key} with ${conditions}; it is bun, types, default, in this order`]
  const source = target["bun"]!
  const built = source.replace(/^\.\/src\//, "./dist/").replace(/\.ts$/, "")
  return [
    ...(exists(source) ? [] : [`${at} exports ${key} as ${source}, which does not exist`]),
    ...(target["types"] === `${built}.d.ts` && target["default"] === `${built}.js` ? [] : [`${at} exports ${key} with built files that are not those of ${source}`]),
  ]
}

function versionProblems(at: string, manifest: Manifest): readonly string[] {
  const named = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.peerDependencies }
  return Object.entries(named).flatMap(([name, range]) => {
    const expected = name.startsWith("@cohort/") ? "workspace:*" : "catalog:"
    return range === expected ? [] : [`${at} takes ${name} as ${range}; it is ${expected}`]
  })
}

/** Everything wrong with the manifests, as sentences. */
export function manifestProblems(workspaces: readonly Workspace[], version: string, exists: Exists = inRepository): readonly string[] {
  return workspaces.flatMap((workspace) => {
    const { kind, path, folder, manifest, readme } = workspace
    const at = `${path}/package.json`
    const problems: string[] = []
    const expect = (holds: boolean, problem: string): void => void (holds || problems.push(`${at} ${problem}`))
    expect(kind === "example" || manifest.name === `@cohort/${folder}`, `is named ${manifest.name}; it is @cohort/${folder}`)
    expect(manifest.version === version, `has version ${manifest.version}; all packages have ${version}`)
    expect(manifest.license === "Apache-2.0", "has no license: Apache-2.0")
    expect(manifest.type === "module", "is not type: module")
    expect(manifest.scripts?.["check"] === "bun check", 'has no script "check": "bun check"')
    expect(manifest.scripts?.["lint"] !== undefined, "has no script lint")
    problems.push(...versionProblems(at, manifest))
    if (kind === "private" || kind === "example") {
      expect(manifest.private === true, "is not private")
      return problems
    }
    expect((manifest.description ?? "").length >= 10, "has no description")
    expect(manifest.private !== true, "is private, so it cannot be installed")
    expect(manifest.scripts?.["test"] === "bun test", 'has no script "test": "bun test"')
    expect(manifest.scripts?.["build"] !== undefined, "has no script build")
    expect(manifest.sideEffects !== undefined, "does not say sideEffects")
    expect(manifest.engines?.["bun"] === ">=1.4", "has no engines.bun: >=1.4")
    expect(["dist", "src", "!src/**/*.test.ts"].every((entry) => manifest.files?.includes(entry) === true), "does not publish dist and src without tests")
    expect(manifest.exports?.["./package.json"] !== undefined, "does not export ./package.json")
    expect(manifest.exports?.["."] !== undefined, "does not export .")
    expect(kind !== "plugin" || manifest.keywords?.includes("cohort-plugin") === true, "lacks the keyword cohort-plugin")
    const below: Exists = (file) => exists(join(path, file))
    for (const [key, target] of Object.entries(manifest.exports ?? {})) problems.push(...exportProblems(at, key, target, below))
    for (const [name, file] of Object.entries(manifest.bin ?? {})) expect(below(file), `has the command ${name} at ${file}, which does not exist`)
    if (readme === undefined) problems.push(`${path} has no README.md`)
    else if (!readme.startsWith(`# ${manifest.name}`)) problems.push(`${path}/README.md does not start with # ${manifest.name}`)
    return problems
  })
}
