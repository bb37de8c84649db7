// The trainer's weights and their way to the servers, simulated. What is trained is read from the tokens themselves.
import type { MicroBatch } from "@cohort/batching"
import { CohortError } from "@cohort/errors"
import { EMPTY_METRICS } from "@cohort/loss"
import { type Clock, seededRandom, seedOf, withDeadline } from "@cohort/rollout"
import type { TrainerBackend } from "@cohort/trainer"
import type { WeightTransfer } from "@cohort/weight-transfer"
import type { Engine } from "./engine.ts"
import { heavyTail, type Scenario } from "./scenario.ts"
import { logProbOfId, promptText, versionOfId } from "./tokens.ts"

/** One trained row as its tokens tell it. */
export interface TrainedRow {
  readonly sampleId: string
  readonly occurrence: number
  /** Row of the dataset that the prompt names. */
  readonly rowIndex: number
  readonly slow: boolean
  readonly oldestVersion: number
  readonly trainedTokens: number
  readonly weight: number
}

export interface TrainerHooks {
  /** The optimizer took step `step` (from 0) on these rows. */
  readonly onCommit: (step: number, rows: readonly TrainedRow[]) => void
  readonly onProblem: (problem: string) => void
}

export type SimulatedBackend = TrainerBackend & {
  /** Optimizer steps taken. */
  readonly version: number
}

const noWeights = { names: [], tensors: () => [], companionFiles: {} }

/** `life` tells the lives of one run apart: chance goes on where the last life ended. */
export function createBackend(scenario: Scenario, clock: Clock, startVersion: number, life: number, hooks: TrainerHooks): SimulatedBackend {
  const random = seededRandom(seedOf(scenario.seed, 5, life))
  let rows: TrainedRow[] = []
  /** Rows of all passes over the window so far. */
  let window: TrainedRow[] = []
  let passes = 0
  let version = startVersion
  return {
    get version() {
      return version
    },
    async forwardBackward(batch) {
      await clock.sleep((scenario.stepMs * (0.5 + heavyTail(random))) / 4)
      for (const [index, places] of samplePredictions(batch).entries()) rows.push(readSample(batch, batch.sampleIds[index]!, places, hooks.onProblem))
      return { ...EMPTY_METRICS, tokens: batch.trainedTokens }
    },
    async optimStep() {
      await clock.sleep(1)
      window.push(...rows)
      rows = []
      // A skip of a later pass over the same rows would leave a window half trained, which this backend never does.
      if (passes === 0 && random() < scenario.rates.nonFinite) {
        window = []
        return { gradNorm: Number.NaN, skipped: true }
      }
      passes = (passes + 1) % scenario.iterations
      if (passes > 0) return { gradNorm: 1, skipped: false }
      hooks.onCommit(version++, window)
      window = []
      return { gradNorm: 1, skipped: false }
    },
    logProbs: async () => [],
    entropies: async () => [],
    moveReference: async () => undefined,
    weights: () => noWeights,
    save: () => clock.sleep(20 * heavyTail(random)),
    load: async () => undefined,
    close: async () => undefined,
  }
}

/** Where the predictions of each sample are, in the order of `sampleIds`. */
function samplePredictions({ rows, length, packed, attentionMask }: MicroBatch): number[][] {
  return Array.from({ length: rows }, (_, row) => Array.from({ length }, (_, index) => row * length + index)).flatMap((places, row) => {
    if (packed !== undefined) return Array.from({ length: packed.samples[row]! }, (_, number) => places.filter((at) => packed.sequence[at] === number))
    const real = places.filter((at) => attentionMask[at] === 1)
    return real.length === 0 ? [] : [real]
  })
}

/** Places of the tokens from which the prediction is made: those that its source sees. */
function prefixOf({ length, packed }: MicroBatch, prediction: number): number[] {
  const start = prediction - (prediction % length)
  const source = packed === undefined ? prediction - start : packed.source[prediction]!
  return Array.from({ length: source + 1 }, (_, index) => start + index).filter((at) => packed === undefined || source < packed.visibleUntil[at]!)
}

function readSample(batch: MicroBatch, sampleId: string, predictions: readonly number[], onProblem: (problem: string) => void): TrainedRow {
  const last = predictions.at(-1)!
  const prefix = prefixOf(batch, last)
  for (const [index, at] of prefix.entries()) if (batch.positions[at] !== index) onProblem(`${sampleId} token ${index} has position ${batch.positions[at]}`)
  const ids = [...prefix.map((at) => batch.tokenIds[at]!), batch.targets[last]!]
  const trained = new Set<number>()
  let oldestVersion = Number.POSITIVE_INFINITY
  for (const at of predictions) {
    const index = prefixOf(batch, at).length
    if (batch.targets[at] !== ids[index]) onProblem(`${sampleId} predicts token ${batch.targets[at]} in the place of ${ids[index]}`)
    if (batch.lossMask[at] === 0) continue
    const id = batch.targets[at]!
    const version = versionOfId(id)
    if (version === undefined) onProblem(`${sampleId} trains token ${id} of its prompt`)
    if (version !== batch.versions[at]) onProblem(`${sampleId} token ${index} was made by version ${version}, trained as version ${batch.versions[at]}`)
    if (batch.behaviorLogProbs[at] !== logProbOfId(id)) onProblem(`${sampleId} token ${index} has the log-prob of another token`)
    if (trained.has(index)) onProblem(`${sampleId} trains token ${index} twice`)
    trained.add(index)
    oldestVersion = Math.min(oldestVersion, version ?? oldestVersion)
  }
  const text = promptText(ids.filter((_, index) => !trained.has(index)))
  const [, rowIndex = "-1", speed] = /row (\d+) (\w+)/.exec(text) ?? []
  const [, occurrence = "-1"] = /^g(\d+)\./.exec(sampleId) ?? []
  return { sampleId, occurrence: Number(occurrence), rowIndex: Number(rowIndex), slow: speed === "slow", oldestVersion, trainedTokens: trained.size, weight: batch.weights[last]! }
}

/** Publishes to the engines; slow, partial, failed and stuck pushes as the scenario says. */
export function createTransfer(scenario: Scenario, clock: Clock, engines: readonly Engine[], life: number): WeightTransfer & { readonly published: () => number } {
  const random = seededRandom(seedOf(scenario.seed, 6, life))
  const { rates } = scenario
  let published = engines[0]!.version
  return {
    published: () => published,
    init: async () => undefined,
    close: async () => undefined,
    async push(version, signal = new AbortController().signal) {
      const start = clock.now()
      if (random() < rates.syncFailed) throw new CohortError("transfer_failed", "no server took the weights")
      const missing = random() < rates.syncPartial ? Math.floor(random() * engines.length) : -1
      const alive = engines.filter((engine) => engine.alive)
      const factor = random() < rates.syncSlow ? 50 : 1
      const stuck = random() < rates.syncStuck
      try {
        await Promise.all(alive.map((engine) => engine.pause(scenario.pauseMode, signal)))
        if (stuck) await new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }))
        await withDeadline({ clock, timeoutMs: 600_000, signal, what: "copying" }, () => clock.sleep(scenario.syncMs * factor * heavyTail(random), signal))
        published = version
        const took = alive.filter((engine) => engine.alive && engine !== engines[missing])
        for (const engine of took) engine.load(version)
        if (took.length === 0) throw new CohortError("transfer_failed", "no server took the weights")
        const seconds = (clock.now() - start) / 1000
        return { version, bytes: 1, seconds, pausedSeconds: seconds, servers: engines.map((engine) => ({ name: engine.name, ok: took.includes(engine), seconds })) }
      } finally {
        for (const engine of alive) if (engine.alive) engine.resume()
      }
    },
  }
}
