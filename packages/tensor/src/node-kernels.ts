// tfjs's node kernels. The npm package that holds them downloads a library when it is installed, so the published package carries
// them as a bundle; in the workspace, before a build, they come from the package.
import { existsSync } from "node:fs"

// The same place seen from src/ and from dist/.
const bundle = new URL("../dist/vendor/tfjs-node-kernels.js", import.meta.url)

/** Registers the kernels and gives tfjs's backend class, whose own types name the addon. */
export function loadNodeKernels(): Promise<{ readonly NodeJSKernelBackend: unknown }> {
  return existsSync(bundle) ? import(bundle.href) : import("./node-kernels-source.ts")
}
