// Rollouts and contexts for tests of plugins: everything that is not given is plain and valid.
import type { Json, PromptRow, RewardContext, ScoredRollout } from "@cohort/env"
import type { SetupContext } from "../define.ts"

export interface FakeRollout {
  readonly text: string
  /** Columns of the row; `id` and `prompt` are filled in. */
  readonly row?: Readonly<Record<string, Json | PromptRow["prompt"] | undefined>>
  readonly finishReason?: ScoredRollout["finishReason"]
  readonly turns?: number
  /** Default: one id per 4 characters, as many as a tokenizer would make, about. */
  readonly completionIds?: Int32Array
}

/**
 * A finished rollout with that text.
 *
 * @example fakeRollout({ text: "95", row: { prompt: "37+58=", answer: "95" } })
 */
export function fakeRollout({ text, row = {}, finishReason = "stop", turns = 1, completionIds }: FakeRollout): ScoredRollout {
  const full: PromptRow = { id: "row-0", prompt: "What is the answer?", ...row }
  return {
    row: full,
    prompt: full.prompt,
    completion: [{ role: "assistant", content: text }],
    text,
    completionIds: completionIds ?? Int32Array.from({ length: Math.ceil(text.length / 4) }, (_, index) => index),
    turns,
    finishReason,
  }
}

/** A context for a reward's call; it never aborts unless a signal is given. */
export function fakeRewardContext(signal: AbortSignal = new AbortController().signal): RewardContext {
  return { signal, log: () => {}, policyVersion: 0 }
}

/** A context for a setup, seeded: the same seed gives the same random numbers. */
export function fakeSetupContext({ seed = 0, ...given }: Partial<SetupContext> & { readonly seed?: number } = {}): SetupContext {
  return { signal: new AbortController().signal, log: () => {}, random: mulberry32(seed), projectDir: ".", ...given }
}

/** Tommy Ettinger's mulberry32: 32 bits of state, enough for tests. */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
