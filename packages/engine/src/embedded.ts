// The engine as an `InferenceServer` of the same process: colocated training needs no socket.
import { CohortError } from "@cohort/errors"
import type { GenerateRequest, Generation, InferenceServer } from "@cohort/inference"

import { defaultLabel, type Engine } from "./engine.ts"
import type { Completion } from "./request.ts"

/** Policy version behind a label: "default" is 0, a decimal number itself. Throws `inference_failed` for anything else. */
export function versionOf(label: string): number {
  if (label === defaultLabel) return 0
  const version = Number(label)
  if (Number.isSafeInteger(version) && version >= 0 && String(version) === label) return version
  throw new CohortError("inference_failed", `The weights carry the label "${label}", which is no policy version.`, { hint: "Name the weights by their optimizer step." })
}

/**
 * The engine behind the contract that rollouts use. `pause` always clears caches: new weights recompute what runs.
 * `close` leaves the engine itself alone, since whoever made it owns it.
 */
export function embeddedServer(engine: Engine): InferenceServer {
  return {
    async generate(request: GenerateRequest): Promise<Generation[]> {
      const { sampling } = request
      const completions = await engine.submit({
        promptIds: request.promptIds,
        n: request.n,
        maxTokens: sampling.maxTokens,
        temperature: sampling.temperature,
        topP: sampling.topP,
        topK: sampling.topK,
        minP: sampling.minP,
        repetitionPenalty: sampling.repetitionPenalty,
        stopTokenIds: sampling.stopTokenIds,
        signal: request.signal,
        ...(sampling.seed === undefined ? {} : { seed: sampling.seed }),
      }).result
      return completions.map(generation)
    },
    pause: (mode) => engine.pause(mode, true),
    async resume() {
      engine.resume()
    },
    async health() {
      const { ready, running, waiting, kvUsage, maxModelLength, versionLabel } = engine.health()
      return { ready, running, waiting, kvUsage, maxModelLength, version: versionOf(versionLabel) }
    },
    async loadWeights({ path, version, adapter }) {
      if (adapter !== undefined) throw new CohortError("inference_rejected", "the embedded engine has no adapters: it takes weights with the adapter merged in")
      if (!engine.isPaused)
        throw new CohortError("inference_rejected", "loadWeights needs a paused engine.", { hint: "Call pause first and resume afterwards." })
      await engine.loadWeights(path, version)
    },
    async close() {},
  }
}

function generation(completion: Completion): Generation {
  return {
    tokenIds: Int32Array.from(completion.tokenIds),
    logProbs: Float32Array.from(completion.logProbs),
    finishReason: completion.finish.reason,
    versions: completion.versions.map(([from, label]) => [from, versionOf(label)] as const),
  }
}
