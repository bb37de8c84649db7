// Builds dist/: our modules one by one, and the kernels of tfjs's node package as one bundle over tfjs-core alone.
import { existsSync } from "node:fs"
import { readFile, rm } from "node:fs/promises"
import { isBuiltin } from "node:module"
import { join } from "node:path"
import type { BunPlugin } from "bun"

const root = import.meta.dir
const dist = join(root, "dist")

/** The kernels ask for tfjs's union package, of which they need the core; their class can write TensorBoard summaries, which we do not. */
const coreOnly: BunPlugin = {
  name: "tfjs core only",
  setup(build) {
    build.onResolve({ filter: /^@tensorflow\/tfjs(-core)?$/ }, () => ({ path: "@tensorflow/tfjs-core", external: true }))
    build.onResolve({ filter: /\/proto\/api_pb$/ }, () => ({ path: "summaries", namespace: "left-out" }))
    build.onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {}", loader: "js" }))
  },
}

await rm(dist, { recursive: true, force: true })
const compiler = Bun.spawn(["tsc", "-p", "tsconfig.build.json"], { cwd: root, stdout: "inherit", stderr: "inherit" })
if ((await compiler.exited) !== 0) process.exit(1)

const bundle = await Bun.build({
  entrypoints: [join(root, "src/node-kernels-source.ts")],
  outdir: join(dist, "vendor"),
  naming: "tfjs-node-kernels.js",
  target: "bun",
  plugins: [coreOnly],
  banner: "// Parts of TensorFlow.js. Copyright 2018-2024 Google LLC. Apache License 2.0, see LICENSE-tfjs.",
})
if (!bundle.success) throw new AggregateError(bundle.logs, "the kernels could not be bundled")

// What the bundle still asks for must be a dependency of the package.
const text = await readFile(join(dist, "vendor/tfjs-node-kernels.js"), "utf8")
const asked = new Set([...text.matchAll(/(?:from|require\(|import\()\s*"([^"./][^"]*)"/g)].map((match) => match[1]))
for (const name of asked) if (name !== "@tensorflow/tfjs-core" && !isBuiltin(name!)) throw new Error(`the bundle asks for ${name}`)
if (!existsSync(join(root, "LICENSE-tfjs"))) throw new Error("LICENSE-tfjs is missing")
