// libtensorflow for tests: the installed one, or a printed reason why the tests that need it are skipped.
import { mkdirSync } from "node:fs"
import { findRuntime } from "../install/find.ts"
import { cacheFolder } from "../install/folders.ts"
import { systemHost } from "../install/host.ts"
import { openRuntime } from "../open.ts"
import type { TensorRuntime } from "../runtime.ts"
import { xlaCacheFolder } from "../xla-cache.ts"

const lookup = findRuntime({ env: process.env })
/** Path of the library, or undefined when tests must do without. */
export const libraryPath = lookup.status === "found" ? lookup.runtime.libraryPath : undefined
if (lookup.status !== "found") process.stderr.write(`tests that need libtensorflow are skipped: ${lookup.reason}. ${lookup.hint}\n`)

/** The TensorFlow runtime of this thread, made tfjs's current backend; programs that were compiled in an earlier run are kept. */
export function tensorflow(): Promise<TensorRuntime> {
  if (lookup.status !== "found") throw new Error(lookup.reason)
  const xlaCacheDir = xlaCacheFolder(cacheFolder(process.env, systemHost().home), lookup.runtime)
  mkdirSync(xlaCacheDir, { recursive: true })
  return openRuntime({ backend: "tensorflow", libraryPath, threads: 2, xlaCacheDir })
}
