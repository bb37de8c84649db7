// libtensorflow for tests: the installed one, or a printed reason why the tests that need it are skipped.
import { env as tfEnv } from "@tensorflow/tfjs-core"
import { findRuntime } from "../install/find.ts"
import { openRuntime } from "../open.ts"
import type { TensorRuntime } from "../runtime.ts"

const lookup = findRuntime({ env: process.env })
/** Path of the library, or undefined when tests must do without. */
export const libraryPath = lookup.status === "found" ? lookup.runtime.libraryPath : undefined
if (lookup.status !== "found") process.stderr.write(`tests that need libtensorflow are skipped: ${lookup.reason}. ${lookup.hint}\n`)

let opened: Promise<TensorRuntime> | undefined

/** The TensorFlow runtime of this test process; one, since tfjs's state is global. */
export function tensorflow(): Promise<TensorRuntime> {
  tfEnv().set("PROD", true)
  opened ??= openRuntime({ backend: "tensorflow", libraryPath, threads: 2 })
  return opened
}
