// `cohort runtime`: the native library that computes, installed and shown.
import { type CommandGroup, defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { bytes } from "../numbers.ts"
import { wantsColor } from "../shell.ts"
import { watchInterrupts } from "../signals.ts"
import { createStatusLine } from "../status-line.ts"
import { pad, painter } from "../style.ts"
import { usageError } from "../usage-error.ts"

const json = { type: "boolean", description: "Print one JSON line on stdout" } as const

const install = defineCommand({
  summary: "Install the tensor runtime (TensorFlow's library) into Cohort's cache",
  details: "Fetched with pip as a wheel, checked by its hash, unpacked into COHORT_CACHE or ~/.cache/cohort. Runs do this by themselves where it is missing.",
  args: { kind: { type: "string", valueHint: "cpu|gpu", default: "cpu", description: "gpu needs an NVIDIA driver and CUDA" }, json },
  async run(args, { shell }) {
    const { kind } = args
    if (kind !== "cpu" && kind !== "gpu") throw usageError(`--kind is ${JSON.stringify(kind)}, expected cpu or gpu`, "Write for example --kind cpu.")
    const output = args.json ? shell.stderr : shell.stdout
    const status = createStatusLine({ output, now: shell.now, paint: painter(wantsColor(output, shell.env)) })
    using interrupts = watchInterrupts(shell, { onFirst: () => status.close(), onSecond: () => {} })
    try {
      const { installRuntime } = await import("@cohort/tensor")
      const runtime = await installRuntime({
        env: shell.env,
        kind,
        signal: interrupts.signal,
        onProgress: ({ phase, message, bytes: done, totalBytes: total }) => {
          if (phase !== "done") status.update({ kind: "progress", message, done, total })
        },
      })
      status.close()
      const { libraryPath, version } = runtime
      shell.stdout.write(args.json ? `${JSON.stringify({ libraryPath, version, kind })}\n` : `TensorFlow ${version} (${kind}): ${libraryPath}\n`)
      return exitCodes.ok
    } catch (error) {
      status.close()
      if (!interrupts.interrupted) throw error
      shell.stderr.write("Interrupted; nothing was installed.\n")
      return exitCodes.interrupted
    }
  },
})

const info = defineCommand({
  summary: "Show which tensor runtime runs would use, and which exist for this machine",
  args: { json },
  async run(args, { shell }) {
    const { runtimeInfo } = await import("@cohort/tensor")
    const facts = runtimeInfo({ env: shell.env })
    const { lookup } = facts
    if (args.json) {
      const found = lookup.status === "found" ? lookup.runtime : { reason: lookup.reason, hint: lookup.hint }
      shell.stdout.write(`${JSON.stringify({ status: lookup.status, ...found, platform: facts.platform, glibc: facts.glibc ?? null, cacheDir: facts.cacheDir, available: facts.available })}\n`)
      return exitCodes.ok
    }
    const rows: (readonly [string, string])[] = [
      ["platform", facts.glibc === undefined ? facts.platform : `${facts.platform}, glibc ${facts.glibc}`],
      ["cache", facts.cacheDir],
    ]
    if (lookup.status === "found") rows.push(["in use", `TensorFlow ${lookup.runtime.version} (${lookup.runtime.source === "cache" ? (lookup.runtime.kind ?? "cpu") : lookup.runtime.source})`], ["library", lookup.runtime.libraryPath])
    else rows.push(["in use", `none: ${lookup.reason}`], ["fix", lookup.hint])
    for (const each of facts.available)
      rows.push([`${each.kind} runtime`, `${each.name}, ${each.installed ? `installed in ${each.folder}` : `not installed (download ${bytes(each.wheelBytes)}, on disk ${bytes(each.unpackedBytes)})`}`])
    shell.stdout.write(rows.map(([name, text]) => `${pad(name, 12)}  ${text}\n`).join(""))
    return exitCodes.ok
  },
})

export const runtime: CommandGroup = {
  summary: "Install and show the native library that computes",
  commands: { install: async () => install, info: async () => info },
}
