// Entry of the engine process: options as JSON on stdin, one JSON line on stdout when it serves, errors as one JSON line on stderr.
import { toCohortError } from "@cohort/errors"
import { hostEngine, type HostOptions } from "./host.ts"

const lookForParentMs = 1_000

const { parentPid, ...options } = (await Bun.stdin.json()) as HostOptions & { readonly parentPid: number }

let ending = false
const hosted = await hostEngine(options).catch((thrown: unknown) => {
  const { code, message, hint } = toCohortError(thrown, "inference_failed")
  process.stderr.write(`${JSON.stringify({ cohortError: { code, message, hint } })}\n`)
  process.exit(1)
})

async function end(code: number): Promise<void> {
  if (ending) return
  ending = true
  await hosted.close()
  process.exit(code)
}

process.on("SIGTERM", () => void end(0))
process.on("SIGINT", () => void end(0))
// An engine without its trainer serves nobody: it must not keep memory and cores.
setInterval(() => {
  if (process.ppid !== parentPid) void end(0)
}, lookForParentMs)

process.stdout.write(`${JSON.stringify({ url: hosted.url, port: hosted.port, dtype: hosted.dtype, pid: process.pid })}\n`)
