// Weights through files: each version is a model folder that appears whole, is loaded by every server, and goes when none needs it.
import { basename, join, resolve } from "node:path"
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import { listed, systemClock, type Clock, type InferenceServer, type PauseMode } from "@cohort/inference"
import type { TransferReport, WeightSource, WeightTransfer } from "./protocol.ts"
import { processOwners, runFolderName, sweepDeadRuns, type Owners } from "./run-folder.ts"
import { within } from "./time.ts"
import { nodeFiles, type TransferFiles } from "./transfer-files.ts"
import { updateAdapter, updateServer, type ServerUpdate } from "./update-server.ts"
import { writeVersion } from "./version-folder.ts"

export interface FileTransferOptions {
  /** Newest versions kept on disk, whoever uses them. 2 when absent: the one in use and the way back. */
  readonly keep?: number
  /** `keep` freezes running requests, `wait` lets them end, `abort` cuts them. `keep` when absent. */
  readonly pauseMode?: PauseMode
  /** `continue` fails a push only when no server took it; `fail` when any did not. `continue` when absent. */
  readonly onServerFailure?: "continue" | "fail"
  /** Size of one weight file, bytes; this much is held in memory while writing. When absent 512 MiB, or one file that the source writes itself where it can. */
  readonly shardBytes?: number
  readonly pauseTimeoutMs?: number
  readonly loadTimeoutMs?: number
  readonly resumeTimeoutMs?: number
  /** Told what was swept and what went wrong without stopping the run. */
  readonly log?: (message: string) => void
  readonly files?: TransferFiles
  readonly owners?: Owners
  readonly clock?: Clock
  /** Hex text that no other run folder has. */
  readonly unique?: () => string
}

interface Target {
  readonly server: InferenceServer
  readonly name: string
  /** Folder of the weights it holds; undefined while it holds those it was started with. */
  path: string | undefined
}

interface Written {
  readonly path: string
}

interface RunState {
  readonly source: WeightSource
  readonly targets: readonly Target[]
  readonly folder: string
  written: readonly Written[]
}

/** Names that a companion file must not take. */
const reserved = /^(weights\.json|.*\.safetensors|.*\.safetensors\.index\.json)$/

/**
 * Transfer through a folder that trainer and servers both see.
 *
 * `push` writes the version aside, renames it into place and then, on all servers at once and each by itself (a slow one holds no other
 * up), pauses, loads and resumes. A version is removed once no server runs on it and it is not among the newest `keep`, so a server whose
 * load fails always finds its last good weights, and a dead one does not fill the disk; all are removed at `close`, and by the next run's `init` after a crash. An abort by `signal` is heard until the first server is paused.
 *
 * @throws CohortError `transfer_failed` (push before init, two pushes at once, an incomplete source, no server took it), `disk_full`, `aborted`
 * @example
 * const transfer = filesystemTransfer({ dir: "/shared/run-7" })
 * await transfer.init(backend.weights(), servers)
 * const { bytes, pausedSeconds } = await transfer.push(12)
 */
export function filesystemTransfer(options: FileTransferOptions & { readonly dir: string }): WeightTransfer {
  return fileTransfer(options, "weights")
}

/**
 * The same for an adapter in PEFT's layout, which vLLM loads while it runs: nothing is paused, requests in flight stay on the version that they were
 * started on, and a push is as large as the adapter. Every version has a name of its own that no other run uses; a version is unloaded and removed once
 * no request uses it and it is not among the newest `keep`.
 *
 * @throws CohortError as {@link filesystemTransfer}
 * @example
 * const transfer = loraTransfer({ dir: "/shared/run-7" })
 * await transfer.init(adapter, servers) // adapter: a source of lora_A and lora_B tensors with adapter_config.json beside them
 */
export function loraTransfer(options: FileTransferOptions & { readonly dir: string }): WeightTransfer {
  return fileTransfer(options, "adapter")
}

function fileTransfer(options: FileTransferOptions & { readonly dir: string }, kind: "weights" | "adapter"): WeightTransfer {
  const dir = resolve(options.dir)
  const keep = Math.max(1, options.keep ?? 2)
  const pauseMode = options.pauseMode ?? "keep"
  const files = options.files ?? nodeFiles
  const clock = options.clock ?? systemClock
  const log = options.log ?? (() => undefined)
  const limits = {
    pauseTimeoutMs: options.pauseTimeoutMs ?? (pauseMode === "wait" ? 660_000 : 90_000),
    loadTimeoutMs: options.loadTimeoutMs ?? 3_660_000,
    resumeTimeoutMs: options.resumeTimeoutMs ?? 90_000,
  }
  let run: RunState | undefined
  let pushing: number | undefined

  const removeUnused = async (state: RunState) => {
    const used = new Set(state.targets.map((target) => target.path))
    const unused: Written[] = []
    for (const version of state.written.slice(0, -keep)) if (!used.has(version.path) && (kind === "weights" || (await unloaded(state, version)))) unused.push(version)
    for (const { path } of unused) await files.rm(path, { recursive: true, force: true })
    state.written = state.written.filter((version) => !unused.includes(version))
  }

  /** True once no server holds the adapter; one that cannot be asked holds nothing that anybody will use. */
  const unloaded = async (state: RunState, { path }: Written): Promise<boolean> => {
    const adapter = adapterOf(path)
    const results = await Promise.allSettled(
      state.targets.map(({ server, name }) => within(server.unloadAdapter?.(adapter) ?? Promise.resolve(true), limits.resumeTimeoutMs, `unload of ${adapter} on ${name}`, clock)),
    )
    for (const result of results) if (result.status === "rejected") log(`not unloaded: ${messageOf(result.reason)}`)
    return results.every((result) => result.status === "rejected" || result.value)
  }

  const update = (target: Target, path: string, version: number): Promise<ServerUpdate> =>
    kind === "weights"
      ? updateServer(target.server, target.name, { path, version }, pauseMode, limits, clock)
      : updateAdapter(target.server, target.name, { path, version, adapter: adapterOf(path) }, limits.loadTimeoutMs, clock)

  return {
    async init(source, servers) {
      if (run !== undefined) throw new CohortError("transfer_failed", "init of a transfer that is in use", { hint: "Close it first." })
      checkSource(source)
      try {
        await files.mkdir(dir, { recursive: true })
        const owners = options.owners ?? processOwners()
        for (const name of await sweepDeadRuns(dir, files, owners)) log(`removed ${join(dir, name)}, left by a run that is gone`)
        const folder = join(dir, runFolderName(owners.self, options.unique?.() ?? crypto.randomUUID().replaceAll("-", "")))
        await files.mkdir(folder, { recursive: false })
        run = { source, targets: servers.map(newTarget), folder, written: [] }
      } catch (error) {
        throw toCohortError(error, "transfer_failed", `preparing ${dir} for weights`)
      }
      if (kind === "weights") await resumeAll(run.targets, limits.resumeTimeoutMs, clock, log)
    },

    async push(version, signal): Promise<TransferReport> {
      if (run === undefined) throw new CohortError("transfer_failed", `push of version ${version} before init, or after close`)
      if (pushing !== undefined)
        throw new CohortError("transfer_failed", `push of version ${version} while version ${pushing} is still being pushed`, { hint: "Await one push before the next." })
      if (!Number.isSafeInteger(version) || version < 0)
        throw new CohortError("transfer_failed", `push of version ${version}`, { hint: "A version is the number of optimizer steps taken: 0, 1, 2, ..." })
      pushing = version
      const start = clock.now()
      try {
        const path = freePath(run, version)
        const manifest = await writeVersion({ path, version, source: run.source, files, signal, ...(kind === "weights" ? (options.shardBytes === undefined ? {} : { shardBytes: options.shardBytes }) : { shardBytes: Number.POSITIVE_INFINITY, fileName: "adapter_model.safetensors" }) })
        run.written = [...run.written, { path }]
        const updates = await Promise.all(
          run.targets.map(async (target) => {
            const outcome = await update(target, path, version)
            if (outcome.loaded) target.path = path
            return outcome
          }),
        )
        await removeUnused(run)
        failUnless(updates, version, options.onServerFailure ?? "continue")
        return {
          version,
          bytes: manifest.bytes,
          seconds: (clock.now() - start) / 1000,
          pausedSeconds: kind === "adapter" ? 0 : Math.max(0, ...updates.map((outcome) => outcome.seconds)),
          servers: updates.map(({ name, ok, seconds, error }) => ({ name, ok, seconds, ...(error === undefined ? {} : { error }) })),
        }
      } finally {
        pushing = undefined
      }
    },

    async close() {
      const last = run
      const folder = run?.folder
      run = undefined
      if (last !== undefined && kind === "adapter") for (const version of last.written) await unloaded(last, version)
      if (folder !== undefined) await files.rm(folder, { recursive: true, force: true })
    },
  }
}

function newTarget(server: InferenceServer, index: number): Target {
  return { server, name: server.name ?? `server ${index + 1}`, path: undefined }
}

/** A version pushed again, after no server took it, gets a folder of its own: one that a server may be reading is never replaced. */
function freePath(run: RunState, version: number): string {
  const taken = new Set(run.written.map(({ path }) => path))
  const base = join(run.folder, `policy-v${version}`)
  for (let again = 1; ; again += 1) {
    const path = again === 1 ? base : `${base}.${again}`
    if (!taken.has(path)) return path
  }
}

/** What servers know an adapter's version as: the folder's name, and what tells the run's folder from all others. */
function adapterOf(path: string): string {
  return `${basename(path)}.${basename(join(path, "..")).split(".").at(-1)!.slice(0, 12)}`
}

function checkSource(source: WeightSource): void {
  const bad = Object.keys(source.companionFiles).filter((name) => name !== name.replaceAll(/[/\\]/g, "") || name.startsWith(".") || reserved.test(name))
  if (bad.length > 0)
    throw new CohortError("transfer_failed", `companion files may not be named ${listed(bad)}`, { hint: "Use plain file names such as config.json; weight files are the transfer's own." })
  const twice = source.names.filter((name, index) => source.names.indexOf(name) !== index)
  if (source.names.length === 0 || twice.length > 0)
    throw new CohortError("transfer_failed", source.names.length === 0 ? "the weight source has no tensors" : `the weight source names ${listed(twice)} twice`)
}

/** A run that was killed between pause and resume left its servers paused, where every request hangs without a word. */
async function resumeAll(targets: readonly Target[], timeoutMs: number, clock: Clock, log: (message: string) => void): Promise<void> {
  const results = await Promise.allSettled(targets.map(({ server, name }) => within(server.resume(), timeoutMs, `resume of ${name}`, clock)))
  const reasons = results.flatMap((result, index) => (result.status === "rejected" ? [`${targets[index]!.name}: ${messageOf(result.reason)}`] : []))
  if (targets.length > 0 && reasons.length === targets.length)
    throw new CohortError("transfer_failed", `no inference server could be resumed at the start (${reasons.join("; ")})`, {
      hint: "Start the servers first; vLLM needs VLLM_SERVER_DEV_MODE=1 for weight updates.",
    })
  for (const reason of reasons) log(`not resumed at the start: ${reason}`)
}

function failUnless(updates: readonly ServerUpdate[], version: number, policy: "continue" | "fail"): void {
  const failed = updates.filter((update) => !update.ok)
  if (failed.length === 0 || (policy === "continue" && failed.length < updates.length)) return
  throw new CohortError("transfer_failed", `version ${version} reached ${updates.length - failed.length} of ${updates.length} servers: ${failed.map(({ name, error }) => `${name}: ${error}`).join("; ")}`, {
    hint: "The servers that failed run on their last good weights, or stay paused when those are lost too.",
    details: { version, servers: updates.map(({ name, ok, error }) => ({ name, ok, error: error ?? null })) },
  })
}
