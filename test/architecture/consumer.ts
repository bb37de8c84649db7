// `bun run check:packages`: packs every package as it would be published, installs the archives in an empty project outside the workspace, type-checks
// against the built declarations without the `bun` condition, loads every library, and runs three steps of the quickstart from an empty folder with an empty
// home, as `bunx @cohort/cli quickstart` would. Not in CI: it builds everything, asks the registry, and fetches the tensor runtime unless COHORT_LIBTENSORFLOW names one.
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readWorkspaces, root } from "./workspace.ts"

async function run(command: readonly string[], cwd: string): Promise<void> {
  const child = Bun.spawn([...command], { cwd, stdin: "ignore", stdout: "inherit", stderr: "inherit", env: { ...process.env, DO_NOT_TRACK: "1" } })
  const code = await child.exited
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}`)
}

/** Three steps of the quickstart by the installed command; throws where its one line on stdout is not a summary. */
async function quickstart(project: string): Promise<void> {
  const [home, cwd] = [join(project, "home"), join(project, "empty")]
  await Promise.all([home, cwd].map((folder) => mkdir(folder)))
  const { XDG_CACHE_HOME: _xdg, COHORT_CACHE: _cache, ...env } = process.env
  const child = Bun.spawn([join(project, "node_modules/.bin/cohort"), "quickstart", "--train.steps", "3", "--json"], { cwd, stdin: "ignore", stdout: "pipe", stderr: "inherit", env: { ...env, HOME: home } })
  const [text, code] = await Promise.all([new Response(child.stdout).text(), child.exited])
  if (code !== 0) throw new Error(`cohort quickstart ended with ${code}`)
  const { accuracyBefore, accuracyAfter, weightSyncs, seconds } = JSON.parse(text) as { readonly accuracyBefore: number; readonly accuracyAfter: number; readonly weightSyncs: readonly unknown[]; readonly seconds: number }
  if (accuracyBefore < 0.2 || accuracyAfter < 0.2 || weightSyncs.length !== 3) throw new Error(`cohort quickstart: ${text}`)
  process.stdout.write(`cohort quickstart: accuracy ${accuracyBefore} before, ${accuracyAfter} after, ${seconds} s\n`)
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
  await quickstart(project)
} finally {
  await rm(project, { recursive: true, force: true })
}
