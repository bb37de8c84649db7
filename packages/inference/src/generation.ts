// Makes a Generation out of what a server answered, and refuses every answer that would corrupt a training sample.
import { describe, malformed } from "./answer.ts"
import type { Generation, VersionSpan } from "./protocol.ts"

export interface RawGeneration {
  readonly tokenIds: readonly unknown[]
  readonly logProbs: readonly unknown[]
  readonly finishReason: unknown
  readonly versions: readonly VersionSpan[]
  /** For messages: "vllm-a choice 2". */
  readonly where: string
}

/** vLLM's word for minus infinity. */
const minusInfinity = -9999
/** Above rounding noise, a positive value is no log-probability. */
const positiveNoise = 1e-3

/**
 * Checks lengths, ids and log-probs of one completion.
 *
 * @throws CohortError `inference_failed` when ids and log-probs differ in length, an id is no id, or a log-prob is null, NaN,
 * infinite (vLLM writes -9999) or positive
 */
export function generationOf(raw: RawGeneration): Generation {
  const { tokenIds, logProbs, where } = raw
  if (tokenIds.length !== logProbs.length)
    throw malformed(`${where}: ${tokenIds.length} token ids but ${logProbs.length} log-probs`)
  const ids = new Int32Array(tokenIds.length)
  const values = new Float32Array(tokenIds.length)
  for (let i = 0; i < tokenIds.length; i += 1) {
    ids[i] = tokenId(tokenIds[i], `${where}: token ${i}`)
    values[i] = logProb(logProbs[i], `${where}: log-prob of token ${i} (id ${ids[i]})`)
  }
  return { tokenIds: ids, logProbs: values, finishReason: finishOf(raw.finishReason, where), versions: raw.versions }
}

function tokenId(value: unknown, where: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 0x7fffffff) return value
  throw malformed(`${where} is ${describe(value)}, a token id was expected`)
}

function logProb(value: unknown, where: string): number {
  if (typeof value !== "number" || Number.isNaN(value))
    throw malformed(`${where} is ${describe(value)}`, "The server's logits were not finite; look at the weights that it loaded last.")
  if (value <= minusInfinity || value === Infinity) throw malformed(`${where} is ${value}: not finite`, "A sampled token cannot have probability 0.")
  if (value > positiveNoise)
    throw malformed(`${where} is ${value}: positive`, "Start vLLM with --logprobs-mode processed_logprobs, not with a logits mode.")
  return Math.min(value, 0)
}

function finishOf(reason: unknown, where: string): Generation["finishReason"] {
  switch (reason) {
    case "stop":
    case "length":
    case "abort":
      return reason
    // A repetition detector cut it: like the length limit, the model did not end by itself.
    case "repetition":
      return "length"
    // A stream or answer cut by the server before it knew why.
    case null:
    case undefined:
      return "abort"
    default:
      throw malformed(`${where}: finish reason ${describe(reason)}`)
  }
}
