// Log-probs of the tokens that hidden states predict, and their entropies: from the logits of all of them at once, or some at a time where those are large.
import type { Tensor, Tensor1D } from "@tensorflow/tfjs-core"
import type { RawOps } from "@cohort/tensor"
import type { ModelConfig } from "./config.ts"
import { logits, type Weights } from "./forward.ts"
import { HEAD_CHUNK_TOKENS, headLogProbs } from "./head-log-probs.ts"
import { entropies, targetLogProbs } from "./log-probs.ts"

/** Logits (tokens times vocabulary) from which on they are computed in parts, and computed again for the gradient: 64 MiB. */
export const HEAD_CHUNKS_FROM = 2 ** 24

export interface TokenScoreOptions {
  readonly raw: RawOps | undefined
  readonly temperature: Tensor
  /** Whether entropies are wanted, and whether the loss differentiates them. */
  readonly entropy: "none" | "measured" | "trained"
  /** {@link HEAD_CHUNKS_FROM} when absent. */
  readonly chunksFrom?: number
}

/**
 * log softmax(logits / temperature)[target] and the entropy of that softmax, nats, for every position.
 * @param hidden_ND states after the final norm
 * @param targets_N int32
 */
export function tokenScores(config: ModelConfig, weights: Weights, hidden_ND: Tensor, targets_N: Tensor, options: TokenScoreOptions): { readonly logProbs_N: Tensor1D; readonly entropies_N: Tensor1D | undefined } {
  const { raw, temperature, entropy, chunksFrom = HEAD_CHUNKS_FROM } = options
  const tokens = hidden_ND.shape[0]!
  if (tokens > HEAD_CHUNK_TOKENS && tokens * config.vocabSize >= chunksFrom) {
    const scores = headLogProbs(hidden_ND, config.tiedEmbeddings ? weights.embed! : weights.head!, targets_N, temperature, { entropyGradient: entropy === "trained" })
    return { logProbs_N: scores.logProbs_N, entropies_N: entropy === "none" ? undefined : scores.entropies_N }
  }
  const logits_NV = logits(config, weights, hidden_ND)
  return {
    logProbs_N: targetLogProbs(raw, logits_NV, targets_N, temperature) as Tensor1D,
    entropies_N: entropy === "none" ? undefined : (entropies(logits_NV, temperature) as Tensor1D),
  }
}
