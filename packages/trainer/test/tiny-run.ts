// The training loop over the real embedded backend and a model of some hundred weights: groups are given by the test, weights and figures come back.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createStepPlanner, type Sample } from "@cohort/batching"
import { resolveConfig, type RunConfig, type RunConfigInput } from "@cohort/config"
import { createPolicy, parseModelConfig, randomValues, saveModelFolder } from "@cohort/model"
import { type RolloutWorker, type SampleGroup, systemClock } from "@cohort/rollout"
import { findRuntime, openDefaultRuntime, type TensorRuntime } from "@cohort/tensor"
import { noTransfer } from "@cohort/weight-transfer"
import type { TrainerBackend } from "../src/backend.ts"
import { createEmbeddedBackend, type EmbeddedBackend, type EmbeddedSettings } from "../src/embedded/backend.ts"
import { type Progress, trainLoop } from "../src/loop.ts"
import { startEntropy } from "../src/objective.ts"

export const library = findRuntime({ env: process.env })

export const openTiny = (): Promise<TensorRuntime> => openDefaultRuntime({ env: process.env, backend: "tensorflow", signal: AbortSignal.timeout(60_000), threads: 1, allowInstall: false })

export const vocabulary = 16

/** A folder with a random model; `remove` when done. */
export async function tinyFolder(): Promise<{ readonly folder: string; readonly inner: (name: string) => string; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), "cohort-tiny-"))
  const config = parseModelConfig({ architectures: ["LlamaForCausalLM"], vocab_size: vocabulary, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1, initializer_range: 0.5 })
  const runtime = await openTiny()
  const policy = createPolicy(runtime, config, randomValues(config, 3))
  mkdirSync(join(folder, "start"))
  await saveModelFolder(join(folder, "start"), policy)
  policy.dispose()
  runtime.close()
  return { folder: join(folder, "start"), inner: (name) => join(folder, name), remove: () => rmSync(folder, { recursive: true, force: true }) }
}

export async function openBackend(modelFolder: string, settings: Partial<EmbeddedSettings> = {}, runtime?: TensorRuntime): Promise<EmbeddedBackend> {
  return createEmbeddedBackend(runtime ?? (await openTiny()), { modelFolder, adamW: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0 }, compile: "eager", precision: "f32", entropy: true, machine: "test", ...settings })
}

export function tinyConfig(input: Partial<Pick<RunConfigInput, "objective" | "train" | "rollout">> & { readonly model?: Partial<RunConfigInput["model"]> }): RunConfig {
  return resolveConfig({
    ...input,
    model: { path: "tiny", ...input.model },
    data: { source: "env-arithmetic" },
    rewards: ["reward-math"],
    rollout: { groupSize: 2, maxCompletionTokens: 8, ...input.rollout },
    train: { completionsPerStep: 4, learningRate: 0.01, ...input.train },
  })
}

/** For each reward a prompt of two tokens and a completion of four. */
export function tinyGroup(id: string, occurrence: number, rewards: readonly number[], version = 0): SampleGroup {
  const samples = rewards.map((_, member): Sample => {
    const tokenIds = Int32Array.from({ length: 6 }, (_, at) => (at * 5 + member * 3 + occurrence * 7 + 1) % vocabulary)
    return {
      id: `${id}.${member}/0`, groupId: id, rolloutId: `${id}.${member}`, tokenIds, lossMask: Uint8Array.of(0, 0, 1, 1, 1, 1),
      behaviorLogProbs: Float32Array.of(0, 0, -2, -2.5, -3, -2), versions: Int32Array.of(-1, -1, version, version, version, version), advantage: 0, weight: 1, truncated: false,
    }
  })
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  return {
    id, occurrence, row: { id, prompt: "p" }, rewards, rolloutIds: samples.map(({ rolloutId }) => rolloutId), memberParts: rewards.map((reward) => ({ "reward-math": reward })), rewardMean: mean, rewardParts: {}, rewardSpread: 1,
    samples: samples.map((sample, member) => ({ ...sample, advantage: rewards[member]! - mean })),
    oldestVersion: version, trainedTokens: 4 * rewards.length, completionTokens: 4 * rewards.length, truncatedShare: 0, startedAtMs: 0, queuedAtMs: 0,
  }
}

/** Trains on the groups, as many steps as they fill; gives the figures of each step. */
export async function trainOn(backend: EmbeddedBackend, config: RunConfig, groups: readonly SampleGroup[], from = 0, onStep?: (step: number) => Promise<void>): Promise<readonly Readonly<Record<string, number>>[]> {
  const figures: Readonly<Record<string, number>>[] = []
  const progress: Progress = { step: from, samplesTrained: 0, trainedTokens: 0, trainSeconds: 0, entropy: startEntropy(config) }
  const groupsPerStep = config.train.completionsPerStep / config.rollout.groupSize
  const status = { state: "running", get heartbeatAtMs() { return systemClock.now() }, groupsInFlight: 0, rolloutsInFlight: 0, queueDepth: 0, lastError: undefined } as const
  const worker: RolloutWorker = {
    start: async () => undefined, stop: async () => undefined, pause: async () => undefined, resume: async () => undefined,
    setPolicyVersion: () => undefined, release: () => undefined, queued: [], status,
    samples: (async function* () { yield* groups })(),
  }
  await trainLoop({
    config, backend: asTrainer(backend), worker, transfer: noTransfer(), groupsPerStep, rewards: [{ name: "reward-math", weight: 1 }],
    // Small, so that a window takes several micro-batches.
    planner: createStepPlanner({ maxLength: 8, tokenBudget: 16, samplesPerStep: config.train.completionsPerStep, packing: config.train.packing }), progress, clock: systemClock,
    signal: new AbortController().signal, append: () => undefined, exclusively: (body) => body(), giveBack: () => undefined, onUpdate: () => undefined, onSync: () => undefined,
    onStep: async (step, metrics) => {
      figures.push(metrics)
      await onStep?.(step)
    },
  })
  return figures
}

/** The backend without its thread: the same methods, awaited. */
export function asTrainer(backend: EmbeddedBackend): TrainerBackend {
  return {
    forwardBackward: async (batch, spec) => backend.forwardBackward(batch, spec),
    optimStep: async (step) => backend.optimStep(step),
    logProbs: async (batch, which, temperature) => backend.logProbs(batch, which, temperature),
    entropies: async (batch, temperature) => backend.entropies(batch, temperature),
    moveReference: async (mix) => backend.moveReference(mix),
    weights: () => ({ names: backend.names, companionFiles: {}, tensors: () => backend.tensors() }),
    save: (dir) => backend.save(dir),
    load: (dir) => backend.load(dir),
    close: async () => backend.close(),
  }
}

/** All parameters of the policy, or of what is trained, one after another. */
export function parametersOf(backend: EmbeddedBackend, of: "policy" | "trained" = "policy"): Float32Array {
  const parts = backend[of].variables.map((variable) => variable.data() as Float32Array)
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
