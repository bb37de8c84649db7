// `bun run check:packages`: packs every package as it would be published, installs the archives in an empty project outside the workspace, type-checks
// against the built declarations without the `bun` condition, and runs a program. Not in CI: it builds everything and asks the registry.
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readWorkspaces, root } from "./workspace.ts"

async function run(command: readonly string[], cwd: string): Promise<void> {
  const child = Bun.spawn([...command], { cwd, stdin: "ignore", stdout: "inherit", stderr: "inherit", env: { ...process.env, DO_NOT_TRACK: "1" } })
  const code = await child.exited
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}`)
}

const published = readWorkspaces().filter(({ kind }) => kind === "package" || kind === "plugin" || kind === "app")
const libraries = published.filter(({ kind }) => kind !== "app")
const project = await mkdtemp(join(tmpdir(), "cohort-consumer-"))
try {
  const archives = join(project, "archives")
  await mkdir(archives)
  await run([process.execPath, "run", "build"], root)
  for (const { path } of published) await run([process.execPath, "pm", "pack", "--destination", archives, "--quiet"], join(root, path))
  const files = Object.fromEntries(published.map(({ manifest: { name, version } }) => [name, `file:archives/${name.replace("@", "").replace("/", "-")}-${version}.tgz`]))
  const own = (await Bun.file(join(root, "package.json")).json()) as { devDependencies: Record<string, string>; workspaces: { catalog: Record<string, string> } }
  const devDependencies = { typescript: own.devDependencies["typescript"], "@types/bun": own.workspaces.catalog["@types/bun"] }
  await Bun.write(join(project, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module", dependencies: files, overrides: files, devDependencies }))
  const lines = libraries.flatMap(({ manifest }, index) => [`import * as m${index} from "${manifest.name}"`, `if (Object.keys(m${index}).length === 0) throw new Error("${manifest.name} exports nothing")`])
  await Bun.write(join(project, "all.ts"), `${lines.join("\n")}\nconsole.log("${libraries.length} packages load")\n`)
  await run([process.execPath, "install"], project)
  // tfjs-core's own declarations name a type that it does not bring, hence skipLibCheck.
  for (const resolution of ["nodenext", "bundler"]) {
    const module = resolution === "nodenext" ? "nodenext" : "esnext"
    await run([process.execPath, "x", "tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "esnext", "--module", module, "--moduleResolution", resolution, "--types", "bun", "all.ts"], project)
  }
  await run([process.execPath, "all.ts"], project)
} finally {
  await rm(project, { recursive: true, force: true })
}
