// The real engine and its HTTP surface over a runner that writes what the test says: for completions that a model writes only by chance.
import { createEngine, type ModelRunner, openEngineTokenizer, serveEngine } from "@cohort/engine"
import { join } from "node:path"
import { repository } from "./faulty-run.ts"

export interface ScriptedEngine extends AsyncDisposable {
  readonly url: string
}

export const eosTokenId = 2
const folder = join(repository, "models/arithmetic-1m")
const steps = 8

/** @param write the tokens after the prompt, from the completion's seed and the prompt's ids, which end before the last; past their end come stop tokens. */
export async function scriptedEngine(write: (seed: number, promptIds: readonly number[]) => readonly number[], maxModelLength = 64): Promise<ScriptedEngine> {
  const prompts = new Map<number, readonly number[]>()
  const runner: ModelRunner = {
    info: { slots: 16, maxModelLength, vocabSize: 100, chunkSizes: [1, steps], parameters: 0, dtype: "f32", backend: "script" },
    async prefill(requests) {
      for (const { tokenIds, slots } of requests) for (const slot of slots) prompts.set(slot, [...tokenIds])
    },
    async decode(inputs, count) {
      // A turn of the event loop, as native work takes: without it nothing else would ever run.
      await Bun.sleep(1)
      const tokenIds = inputs.flatMap(({ slot, seed, position }) => {
        const prompt = prompts.get(slot)!
        const tokens = write(seed, prompt)
        const done = position - prompt.length
        return Array.from({ length: count }, (_, i) => tokens[done + i] ?? eosTokenId)
      })
      return { steps: count, tokenIds: Int32Array.from(tokenIds), logProbs: new Float32Array(tokenIds.length).fill(-0.5) }
    },
    score: (tokenIds) => Promise.resolve(new Float32Array(tokenIds.length)),
    loadWeights: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const engine = createEngine({ runner, tokenizer: openEngineTokenizer(folder, 100), modelName: "policy", modelFolder: folder, now: Date.now, random: Math.random })
  const server = await serveEngine({ engine, port: 0 })
  return {
    url: server.url,
    async [Symbol.asyncDispose]() {
      await server.close()
      await engine.close()
    },
  }
}
