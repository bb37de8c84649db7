// `cohort serve`: a model folder behind vLLM's HTTP routes.
import { existsSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join, resolve } from "node:path"
import { CohortError } from "@cohort/errors"
import type { ModelOptions } from "@cohort/trainer"
import { wholeNumber } from "../arguments.ts"
import { defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { parentDeath } from "../parent.ts"
import { checkPortFree } from "../port.ts"
import { wantsColor } from "../shell.ts"
import { watchInterrupts } from "../signals.ts"
import { createStatusLine } from "../status-line.ts"
import { painter } from "../style.ts"
import { usageError } from "../usage-error.ts"

const dtypes = ["auto", "f32", "bf16"] as const

export const serve = defineCommand({
  summary: "Serve a model folder over HTTP, with vLLM's routes",
  details:
    "OpenAI-style completions and chat, token ids in and out, log-probs, and the routes by which a trainer pauses generation and loads weights. " +
    "Those control routes are open to whoever reaches the port: keep to 127.0.0.1, or set COHORT_API_KEY.",
  args: {
    model: { type: "positional", required: true, description: "Folder in Hugging Face layout (config.json, tokenizer.json, *.safetensors), or name on the hub" },
    port: { type: "string", valueHint: "n", default: "8000", description: "Port; 0 takes any free one" },
    host: { type: "string", valueHint: "address", default: "127.0.0.1", description: "Address to listen on" },
    slots: { type: "string", valueHint: "n", default: "16", description: "Completions decoded at once" },
    threads: { type: "string", valueHint: "n", description: "Threads that compute (default all cores)" },
    dtype: { type: "string", valueHint: dtypes.join("|"), default: "auto", description: "Type to compute in; auto is the faster one on this machine" },
    "served-model-name": { type: "string", valueHint: "name", default: "policy", description: "Name by which requests ask for the model" },
    "max-model-length": { type: "string", valueHint: "n", description: "Longest sequence, prompt and completion, tokens (default what the model allows)" },
    "json-ready": { type: "boolean", description: 'Print {"ready":true,"url":...,"pid":...} on stdout when it serves' },
    "parent-pid": { type: "string", valueHint: "n", description: "End when this process is gone" },
  },
  examples: [
    ["serve models/arithmetic-1m", "on http://127.0.0.1:8000"],
    ["serve runs/quickstart-.../checkpoints/step-000060 --port 0 --json-ready", "on a free port, which the JSON line says"],
  ],
  async run(args, { shell }) {
    const port = wholeNumber("--port", args.port, 0, 65_535)
    const slots = wholeNumber("--slots", args.slots, 1, 4096)
    const threads = args.threads === undefined ? availableParallelism() : wholeNumber("--threads", args.threads, 1, 1024)
    const maxModelLength = args["max-model-length"] === undefined ? undefined : wholeNumber("--max-model-length", args["max-model-length"], 2)
    const parentPid = args["parent-pid"] === undefined ? undefined : wholeNumber("--parent-pid", args["parent-pid"], 1)
    const dtype = dtypes.find((name) => name === args.dtype)
    if (dtype === undefined) throw usageError(`--dtype is ${JSON.stringify(args.dtype)}, expected ${dtypes.join(", ")}`, "Write for example --dtype f32.")
    const local = resolve(shell.cwd, args.model)
    if (existsSync(local) && !existsSync(join(local, "config.json")))
      throw new CohortError("model_invalid", `${args.model} is no model folder: there is no ${join(local, "config.json")}`, { hint: "Give a folder in Hugging Face layout, such as a checkpoint of a run." })
    // Loading takes long: a taken port should be heard of before.
    if (port !== 0) checkPortFree(args.host, port)

    const output = args["json-ready"] ? shell.stderr : shell.stdout
    const status = createStatusLine({ output, now: shell.now, paint: painter(wantsColor(output, shell.env)) })
    using interrupts = watchInterrupts(shell, { onFirst: (name) => status.print(`${name}: stopping`) })
    using orphaned = parentDeath(parentPid)
    const stop = AbortSignal.any([interrupts.signal, orphaned.signal])
    try {
      const modelFolder = existsSync(local) ? local : await fromHub(args.model, { projectDir: shell.cwd, env: shell.env, signal: stop, onUpdate: (update) => status.update(update) })
      const [{ defaultOpenOptions, cacheFolder, systemHost }, { hostEngine }] = await Promise.all([import("@cohort/tensor"), import("@cohort/engine/process")])
      const runtime = await defaultOpenOptions({ env: shell.env, signal: stop, threads, onProgress: ({ message, bytes: done, totalBytes: total }) => status.update({ kind: "progress", message, done, total }) })
      status.update({ kind: "phase", phase: "model", message: `loading ${args.model}` })
      const apiKey = shell.env["COHORT_API_KEY"]
      const hosting = hostEngine({
        modelFolder,
        runtime,
        modelName: args["served-model-name"],
        host: args.host,
        port,
        slots,
        dtype,
        formMemory: join(cacheFolder(shell.env, systemHost().home), "forms", "decode.json"),
        ...(maxModelLength === undefined ? {} : { maxModelLength }),
        ...(apiKey ? { apiKey } : {}),
      })
      const hosted = await Promise.race([hosting, aborted(stop)])
      if (hosted === undefined) {
        // Loading cannot be interrupted; it dies with this process.
        hosting.catch(() => undefined)
        return exitCodes.interrupted
      }
      try {
        for (const message of hosted.warnings) status.update({ kind: "warning", message })
        status.close()
        const { url, engine } = hosted
        if (args["json-ready"]) shell.stdout.write(`${JSON.stringify({ ready: true, url, pid: process.pid })}\n`)
        else output.write(`${engine.modelName} on ${url} (${engine.info.backend}, ${engine.info.dtype}, ${engine.info.slots} slots, up to ${engine.contextLength} tokens). Ctrl-C stops it.\n`)
        await aborted(stop)
      } finally {
        await hosted.close()
      }
      return exitCodes.ok
    } catch (error) {
      status.close()
      if (stop.aborted) return exitCodes.interrupted
      throw error
    }
  },
})

async function fromHub(model: string, options: ModelOptions): Promise<string> {
  const { fetchModel } = await import("@cohort/trainer")
  return (await fetchModel(model, options)).folder
}

function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return Promise.resolve(undefined)
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(undefined), { once: true }))
}
