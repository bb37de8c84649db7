// The composition root: everything a run is made of, wired together once, taken apart in the opposite order whatever happens.
// Long because it is the one place where every part meets every other; it holds no logic of its own.
import { appendFileSync, rmSync } from "node:fs"
import { availableParallelism, totalmem } from "node:os"
import { isAbsolute, join, resolve } from "node:path"
import { createStepPlanner } from "@cohort/batching"
import { checkResume, promptsPerStep, type RunConfig } from "@cohort/config"
import { createCursor, type CursorState, type PromptCursor } from "@cohort/data"
import type { RowSource } from "@cohort/env"
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import { waitUntilReady } from "@cohort/inference"
import { kinds, type Ledger, openLedger } from "@cohort/ledger"
import { folderWarnings } from "@cohort/model"
import type { SetupContext, Tracker } from "@cohort/plugin"
import { createBiasMonitor, createDropCounter, createRolloutWorker, type EpisodeServices, type RolloutWorker, type RewardEntry, seededRandom, systemClock, type Throttle } from "@cohort/rollout"
import { cacheFolder, defaultOpenOptions, systemHost } from "@cohort/tensor"
import { filesystemTransfer, loraTransfer, noTransfer, sharedMemoryTransfer, type WeightTransfer } from "@cohort/weight-transfer"
import { coresOfRun, engineThreads } from "./embedded/cores.ts"
import { spawnEmbeddedBackend, type SpawnedBackend } from "./embedded/spawn.ts"
import { type Colocated, openColocated } from "./colocated.ts"
import { evaluate } from "./evaluate.ts"
import { plannerOptions } from "./batching.ts"
import { type Progress, trainLoop } from "./loop.ts"
import { watchMemory } from "./memory.ts"
import { startEntropy } from "./objective.ts"
import { fetchRunModel } from "./model-folder.ts"
import { patientTransfer } from "./patient-transfer.ts"
import { lostAndWaiting, resumeCursor } from "./resume-cursor.ts"
import { type CheckpointState, createRunFolder, latestCheckpoint, type RunFolder, runFolder, writeCheckpoint, writeJson } from "./run-folder.ts"
import { episodeServices, openTasks, samplingOf, type Tasks } from "./tasks.ts"
import { openRewards } from "./open-rewards.ts"
import { openRolloutThread } from "./rollout-thread/open.ts"
import { createWatch } from "./watch/watch.ts"
import type { EvalReport, Run, RunOptions, RunSummary, StopReason, SyncReport } from "./run.ts"
import { modelName, openServers, type Servers } from "./servers.ts"
import { slotsFor } from "./slots.ts"
import { mostAhead, workerOptions } from "./worker-options.ts"

/** Things to close, last opened first; each close is tried whatever the others do. */
class Closers {
  readonly #open: { readonly what: string; readonly close: () => unknown }[] = []
  add<T>(what: string, value: T, close: (value: T) => unknown): T {
    this.#open.push({ what, close: () => close(value) })
    return value
  }
  async closeAll(onProblem: (message: string) => void): Promise<void> {
    for (const { what, close } of this.#open.splice(0).toReversed()) {
      try {
        await close()
      } catch (error) {
        onProblem(`closing ${what}: ${messageOf(error)}`)
      }
    }
  }
}

/**
 * Starts a run: makes its folder at once, does the rest in the background.
 *
 * @throws CohortError `config_invalid` for a resume that changes what may not change, `checkpoint_invalid`, `disk_full`
 * @example
 * const run = await createRun({ config, registry, projectDir, env: process.env, onUpdate: console.log, signal })
 * const summary = await run.finished
 */
export async function createRun(options: RunOptions): Promise<Run> {
  const { config } = options
  const parent = isAbsolute(config.runDir) ? config.runDir : resolve(options.projectDir, config.runDir)
  const folder = options.resume === undefined ? createRunFolder(parent, config.name, new Date()) : runFolder(resolve(options.resume))
  if (options.resume !== undefined) {
    checkResume(await readStoredConfig(folder), config)
    // They tell of an end that is no longer one.
    for (const name of ["failure.json", "summary.json"]) rmSync(join(folder.dir, name), { force: true })
  }
  writeJson(join(folder.dir, "config.json"), config)
  if (options.origins !== undefined) writeJson(join(folder.dir, "origins.json"), options.origins)
  return { id: folder.id, dir: folder.dir, finished: execute(options, folder) }
}

async function readStoredConfig(folder: RunFolder): Promise<RunConfig> {
  const file = Bun.file(join(folder.dir, "config.json"))
  if (!(await file.exists())) throw new CohortError("checkpoint_invalid", `${folder.dir} is no run folder: config.json is missing`, { hint: "Give the folder that a run printed when it started." })
  return (await file.json()) as RunConfig
}

async function execute(options: RunOptions, folder: RunFolder): Promise<RunSummary> {
  const closers = new Closers()
  const warn = (message: string): void => options.onUpdate({ kind: "warning", message })
  try {
    return await new Execution(options, folder, closers, warn).run()
  } catch (error) {
    const typed = toCohortError(error, "internal")
    writeJson(join(folder.dir, "failure.json"), { code: typed.code, message: typed.message, hint: typed.hint ?? null })
    throw typed
  } finally {
    await closers.closeAll(warn)
  }
}

class Execution {
  readonly #options: RunOptions
  readonly #config: RunConfig
  readonly #folder: RunFolder
  readonly #closers: Closers
  readonly #warn: (message: string) => void
  readonly #startedAt = performance.now()
  readonly #syncs: SyncReport[] = []
  #bottleneck: RunSummary["bottleneck"] = null
  readonly #bias = createBiasMonitor()
  readonly #drops = createDropCounter()
  readonly #throttle: Throttle = { maxAhead: Number.POSITIVE_INFINITY }
  readonly #progress: Progress
  #firstStepAt: number | undefined
  #lastCheckpoint: string | null = null

  constructor(options: RunOptions, folder: RunFolder, closers: Closers, warn: (message: string) => void) {
    this.#options = options
    this.#config = options.config
    this.#progress = { step: 0, samplesTrained: 0, trainedTokens: 0, trainSeconds: 0, entropy: startEntropy(options.config) }
    this.#folder = folder
    this.#closers = closers
    this.#warn = warn
  }

  async run(): Promise<RunSummary> {
    const { config, signal } = { config: this.#config, signal: this.#options.signal }
    const resumed = this.#options.resume === undefined ? undefined : latestCheckpoint(this.#folder)
    if (resumed !== undefined) {
      const { step, samplesTrained, trainedTokens, trainSeconds, entropy } = resumed.state
      Object.assign(this.#progress, { step, samplesTrained, trainedTokens, trainSeconds, entropy })
      this.#lastCheckpoint = resumed.dir
    }
    const ledger = this.#closers.add("the ledger", openLedger(this.#folder.ledgerPath, { now: Date.now }), (open) => open.close())
    if (resumed !== undefined) ledger.append({ kind: kinds.resumed, atMs: Date.now(), step: resumed.state.step })
    const setup = this.#setupContext()
    const tasks = this.#closers.add("the tools", await openTasks(this.#options, setup), (open) => open.close())
    const rewards = this.#closers.add("the rewards", await openRewards(this.#options, setup), (open) => open.close())
    const cursor = this.#openCursor(tasks.train, ledger, resumed?.state)
    const modelFolder = await fetchRunModel(config.model.path, this.#options, this.#folder.dir)
    folderWarnings(modelFolder).forEach(this.#warn)
    const multiTurn = tasks.tools !== undefined || config.environments.length > 0 || tasks.environmentOf(tasks.train.at(0)) !== undefined
    const { backend, servers, colocated } = await this.#openCompute(modelFolder, resumed?.dir, multiTurn)
    const exclusively = colocated?.exclusively
    const memory = this.#closers.add("the memory watch", watchMemory(() => [process.pid, ...servers.pids(), ...tasks.pids(), ...rewards.pids()]), (watch) => watch.stop())
    const health = await waitUntilReady(servers.pool, { timeoutMs: config.inference.startTimeoutMs, signal })
    const transfer = colocated?.transfer ?? (await this.#openTransfer(backend, servers))
    if (colocated === undefined && (resumed !== undefined || config.inference.urls.length > 0)) await transfer.push(this.#progress.step, signal)
    const services = episodeServices(config, modelFolder, servers.pool, health.maxModelLength, this.#warn, tasks.tools)
    const trackers = await this.#openTrackers(setup)
    const evaluateAt = (step: number): Promise<EvalReport | null> => this.#evaluate(step, tasks, rewards.entries, rewards.fullMarks, services, modelFolder)

    const evalBefore = resumed === undefined ? await evaluateAt(this.#progress.step) : null
    const worker = this.#closers.add("the rollout worker", await this.#openWorker(services, tasks, rewards.entries, cursor, ledger, modelFolder), (open) => open.stop())
    const save = (): Promise<void> => this.#saveCheckpoint(backend, cursor, ledger)
    this.#options.onUpdate({ kind: "phase", phase: "train", message: `training ${config.train.steps - this.#progress.step} steps of ${config.train.completionsPerStep} completions of ${promptsPerStep(config)} prompts` })
    // Samples and tokens are those of the whole run, so its seconds are too.
    const secondsBefore = this.#progress.trainSeconds
    const trainStart = performance.now()
    await worker.start()
    const stopped = await trainLoop({
      config, backend, worker, transfer,
      planner: createStepPlanner(plannerOptions(config, { backend, maxModelLength: health.maxModelLength, multiTurn })),
      groupsPerStep: promptsPerStep(config),
      rewards: rewards.entries,
      progress: this.#progress,
      clock: systemClock,
      signal,
      append: (event) => {
        const stamped = { atMs: systemClock.now(), ...event }
        this.#bias.event(stamped)
        ledger.append(stamped)
      },
      bias: this.#bias,
      drops: this.#drops,
      watch: createWatch({ config, groupsPerStep: promptsPerStep(config), mostAhead: mostAhead(config), throttle: this.#throttle, bias: this.#bias, callbacks: this.#options.callbacks ?? [] }),
      exclusively: exclusively ?? ((body) => body()),
      giveBack: (occurrence) => this.#giveBack(cursor, ledger, occurrence),
      onBottleneck: (bottleneck) => (this.#bottleneck = bottleneck),
      onSync: (report) => this.#syncs.push(report),
      onUpdate: this.#options.onUpdate,
      onStep: async (step, metrics) => {
        this.#firstStepAt ??= performance.now()
        ledger.metrics(step, metrics)
        for (const tracker of trackers) await tracker.log(step, metrics)
        this.#options.onUpdate({ kind: "step", report: { step, totalSteps: config.train.steps, metrics } })
        if (config.train.checkpointEverySteps > 0 && step % config.train.checkpointEverySteps === 0 && step < config.train.steps) await save()
        if (config.eval.everySteps > 0 && step % config.eval.everySteps === 0 && step < config.train.steps) await evaluateAt(step)
      },
    })
    const trainSeconds = secondsBefore + (performance.now() - trainStart) / 1000
    await worker.stop()
    for (const occurrence of lostAndWaiting(cursor, ledger.occurrences())) ledger.append({ kind: kinds.givenBack, atMs: Date.now(), occurrence, reason: "the run ended" })
    this.#options.onUpdate({ kind: "phase", phase: "save", message: "writing the last checkpoint" })
    await save()
    const evalAfter = stopped === "interrupted" ? null : await evaluateAt(this.#progress.step)
    for (const tracker of trackers) await tracker.close()
    const summary = this.#summary({ ledger, stopped, trainSeconds, evalBefore, evalAfter, peakRssBytes: memory.peakBytes })
    writeJson(join(this.#folder.dir, "summary.json"), summary)
    this.#options.onUpdate({ kind: "phase", phase: "done", message: this.#folder.dir })
    return summary
  }

  #setupContext(): SetupContext {
    return {
      signal: this.#options.signal,
      log: (message) => this.#warn(message),
      random: seededRandom(this.#config.seed),
      projectDir: this.#options.projectDir,
      run: { id: this.#folder.id, dir: this.#folder.dir },
    }
  }

  /** A resumed cursor goes on after everything that was ever admitted; what did not end comes again first. */
  #openCursor(train: RowSource, ledger: Ledger, state: CheckpointState | undefined): PromptCursor {
    const { seed, data } = this.#config
    if (train.size === 0) throw new CohortError("dataset_invalid", `${train.name} has no prompts`, { hint: "Check data.source and its options." })
    if (state === undefined) return createCursor(train, { seed, shuffle: data.shuffle })
    return resumeCursor(train, state.cursor as CursorState, ledger.occurrences(), { seed, shuffle: data.shuffle })
  }

  #giveBack(cursor: PromptCursor, ledger: Ledger, occurrence: number): void {
    cursor.giveBack(occurrence)
    ledger.append({ kind: kinds.givenBack, atMs: Date.now(), occurrence })
  }

  async #openCompute(modelFolder: string, checkpoint: string | undefined, multiTurn: boolean): Promise<{ backend: SpawnedBackend; servers: Servers; colocated: Colocated | undefined }> {
    const { env, signal, onUpdate } = this.#options
    const { backend: settings, inference, model, objective, seed, train, transfer } = this.#config
    onUpdate({ kind: "phase", phase: "runtime", message: "looking for the tensor runtime" })
    const runtime = await defaultOpenOptions({
      env, signal,
      onProgress: ({ message, bytes, totalBytes }) => onUpdate({ kind: "progress", message, done: bytes, total: totalBytes }),
    })
    const cache = cacheFolder(env, systemHost().home)
    const cores = availableParallelism()
    onUpdate({ kind: "phase", phase: "model", message: `loading ${modelFolder}` })
    const slots = this.#slots(modelFolder)
    // Checkpoints come and go while the run lives: what is read again later, at an engine's restart or a save, comes from the starting model.
    // Weights come by a push before anything is generated; where none is made, the checkpoint's must do.
    const startFolder = transfer.kind === "none" ? (checkpoint ?? modelFolder) : modelFolder
    const openBackend = (): Promise<SpawnedBackend> =>
      spawnEmbeddedBackend(
        { ...runtime, ...coresOfRun(this.#config, { modelFolder, cores, memoryBytes: totalmem(), multiTurn }) },
        {
          modelFolder,
          adamW: { beta1: train.beta1, beta2: train.beta2, epsilon: train.adamEpsilon, weightDecay: train.weightDecay },
          compile: settings.compile, precision: settings.precision, entropy: true,
          ...(model.lora === undefined ? {} : { lora: { ...model.lora, seed } }),
          movingReference: objective.klCoefficient > 0 && objective.reference === "moving",
          formMemory: join(cache, "forms", "train.json"), machine: `${runtime.libraryPath === undefined ? "fallback" : runtime.xlaCacheDir ?? "tensorflow"} ${cores}`,
        },
      ).then((open) => this.#closers.add("the trainer thread", open, (backend) => backend.close()))
    const openOwnServers = (): Promise<Servers> =>
      openServers({
        config: this.#config, env, logPath: this.#folder.engineLogPath, startVersion: this.#progress.step, signal, onWarning: this.#warn,
        ...(inference.kind === "embedded" && inference.urls.length === 0
          ? {
              engine: {
                modelFolder: startFolder, modelName, version: this.#progress.step,
                runtime: { ...runtime, threads: inference.threads === "auto" ? engineThreads(cores) : inference.threads },
                slots,
                dtype: inference.dtype,
                formMemory: join(cache, "forms", "decode.json"),
                ...(inference.maxModelLength === "auto" ? {} : { maxModelLength: inference.maxModelLength }),
              },
            }
          : {}),
      }).then((open) => this.#closers.add("the inference servers", open, (servers) => servers.close()))
    // Both take seconds, on different processors: they start together, and a failure of one waits for the other to be closable.
    const [opened, own] = await Promise.allSettled([openBackend(), inference.colocated ? Promise.resolve(undefined) : openOwnServers()])
    if (opened.status === "rejected") throw opened.reason
    if (own.status === "rejected") throw own.reason
    const backend = opened.value
    if (checkpoint !== undefined) await backend.load(checkpoint)
    const colocated = own.value === undefined ? await this.#openColocated(backend, modelFolder, slots) : undefined
    const servers = own.value ?? colocated!.servers
    const { because, backend: name, version } = backend.info
    if (because !== "") this.#warn(because)
    onUpdate({ kind: "phase", phase: "engine", message: `${backend.parameters.toLocaleString("en")} parameters${backend.trainedParameters === backend.parameters ? "" : `, ${backend.trainedParameters.toLocaleString("en")} trained`}, ${name} ${version}; inference at ${servers.pool.members.map((member) => member.name ?? "server").join(", ")}` })
    return { backend, servers, colocated }
  }

  async #openColocated(backend: SpawnedBackend, modelFolder: string, slots: number): Promise<Colocated> {
    const { inference, staleness } = this.#config
    if (staleness.weightSyncSteps !== 1)
      throw new CohortError("config_invalid", `staleness.weightSyncSteps is ${staleness.weightSyncSteps} with inference.colocated`, { hint: "A colocated engine has the new weights at once: set staleness.weightSyncSteps to 1." })
    const length = inference.maxModelLength === "auto" ? {} : { maxModelLength: inference.maxModelLength }
    const colocated = await openColocated({ backend, modelFolder, slots, ...length, version: this.#progress.step, onWarning: this.#warn })
    this.#closers.add("the colocated engine", colocated.servers, (servers) => servers.close())
    return colocated
  }

  #slots(modelFolder: string): number {
    const { inference, train } = this.#config
    return inference.slots === "auto" ? slotsFor(modelFolder, train.completionsPerStep) : inference.slots
  }

  async #openTransfer(backend: SpawnedBackend, servers: Servers): Promise<WeightTransfer> {
    const { transfer: settings } = this.#config
    const shared = { pauseMode: settings.pauseMode, pauseTimeoutMs: settings.timeoutMs, loadTimeoutMs: settings.timeoutMs, log: this.#warn }
    const dir = resolve(this.#options.projectDir, settings.dir ?? join(this.#folder.dir, "weights"))
    const chosen =
      settings.kind === "none" ? noTransfer()
      : settings.kind === "lora" ? loraTransfer({ ...shared, dir })
      : settings.kind === "filesystem" || settings.dir !== undefined ? filesystemTransfer({ ...shared, dir })
      : sharedMemoryTransfer({ pauseMode: shared.pauseMode, pauseTimeoutMs: shared.pauseTimeoutMs, loadTimeoutMs: shared.loadTimeoutMs })
    const transfer = patientTransfer(chosen, servers)
    await transfer.init((settings.kind === "lora" ? backend.adapter() : undefined) ?? backend.weights(settings.dtype === "auto" ? servers.dtype : settings.dtype), servers.pool.members)
    return this.#closers.add("the weight transfer", transfer, (open) => open.close())
  }

  async #openWorker(services: EpisodeServices, tasks: Tasks, rewards: readonly RewardEntry[], cursor: PromptCursor, ledger: Ledger, modelFolder: string): Promise<RolloutWorker> {
    const { env, projectDir, registry: { installDirs }, openWorker = this.#config.rollout.thread ? openRolloutThread : createRolloutWorker } = this.#options
    const { id, dir } = this.#folder
    const slots = this.#slots(modelFolder)
    const options = workerOptions(this.#config, {
      services, tasks, rewards, slots,
      startVersion: this.#progress.step,
      throttle: this.#throttle,
      emit: (event) => {
        this.#bias.event(event)
        this.#drops.event(event)
        ledger.append(event)
      },
      nextPrompt: () => cursor.next(),
      onGiveBack: (occurrence) => cursor.giveBack(occurrence),
    })
    const { maxModelLength } = services.limits
    return openWorker(options, { config: this.#config, env, installDirs, maxModelLength, modelFolder, projectDir, runFolder: { id, dir }, slots, throttle: this.#throttle })
  }

  async #evaluate(step: number, tasks: Tasks, rewards: readonly RewardEntry[], fullMarks: number, services: EpisodeServices, modelFolder: string): Promise<EvalReport | null> {
    if (tasks.heldOut === undefined) return null
    const { eval: settings, seed } = this.#config
    this.#options.onUpdate({ kind: "phase", phase: "eval", message: `evaluating on ${Math.min(settings.prompts, tasks.heldOut.size)} held-out prompts` })
    const report = await evaluate({
      ...services,
      source: tasks.heldOut, prompts: settings.prompts, samples: settings.samples,
      sampling: { ...samplingOf(this.#config), temperature: settings.temperature },
      seed, rewards, fullMarks, step, retryDelayMs: 500, signal: this.#options.signal,
      concurrency: 2 * this.#slots(modelFolder),
      environmentOf: tasks.environmentOf,
    })
    this.#options.onUpdate({ kind: "eval", report })
    return report
  }

  async #openTrackers(setup: SetupContext): Promise<readonly Tracker[]> {
    const trackers: Tracker[] = []
    for (const [index, { use, options }] of this.#config.tracking.trackers.entries())
      trackers.push(use === "jsonl" ? this.#jsonlTracker() : await this.#options.registry.tracker(use, setup, { options, askedBy: `tracking.trackers[${index}].use` }))
    return trackers
  }

  #jsonlTracker(): Tracker {
    return {
      log: (step, metrics) => appendFileSync(this.#folder.metricsPath, `${JSON.stringify({ step, time: Date.now(), ...metrics })}\n`),
      close() {},
    }
  }

  async #saveCheckpoint(backend: SpawnedBackend, cursor: PromptCursor, ledger: Ledger): Promise<void> {
    ledger.flush()
    const state: CheckpointState = { format: 1, cursor: cursor.state(), ...this.#progress }
    this.#lastCheckpoint = await writeCheckpoint(this.#folder, state, this.#config.train.keepCheckpoints, (dir) => backend.save(dir))
    ledger.append({ kind: "checkpoint.written", atMs: Date.now(), step: state.step })
    this.#options.onUpdate({ kind: "checkpoint", dir: this.#lastCheckpoint, step: state.step })
  }

  #summary(end: { ledger: Ledger; stopped: StopReason; trainSeconds: number; evalBefore: EvalReport | null; evalAfter: EvalReport | null; peakRssBytes: number }): RunSummary {
    const { ledger, trainSeconds } = end
    const { ages, dropsByReason } = ledger.summary()
    const { step, samplesTrained, trainedTokens } = this.#progress
    return {
      runDir: this.#folder.dir, stopped: end.stopped, steps: step, trainSeconds,
      seconds: (performance.now() - this.#startedAt) / 1000,
      secondsToFirstStep: this.#firstStepAt === undefined ? null : (this.#firstStepAt - this.#startedAt) / 1000,
      evalBefore: end.evalBefore, evalAfter: end.evalAfter,
      samplesTrained, trainedTokens,
      samplesPerSecond: samplesTrained / trainSeconds, trainedTokensPerSecond: trainedTokens / trainSeconds,
      weightSyncs: this.#syncs,
      bottleneck: this.#bottleneck,
      ageP50: ages.p50, ageP95: ages.p95, ageMax: ages.max,
      dropped: dropsByReason,
      checkpoint: this.#lastCheckpoint,
      peakRssBytes: end.peakRssBytes,
    }
  }
}

