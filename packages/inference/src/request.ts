// Checks a generation request before any byte is sent, so that a caller's mistake reads the same for every server.
import { CohortError } from "@cohort/errors"
import type { GenerateRequest, Sampling } from "./protocol.ts"

/**
 * Refuses what no server can do, naming field and value.
 * @throws CohortError `inference_rejected`
 */
export function checkRequest(request: GenerateRequest): void {
  const { promptIds, n, sampling } = request
  if (promptIds.length === 0) refuse("promptIds", "empty", "Give at least one token id.")
  const negative = promptIds.findIndex((id) => id < 0)
  if (negative >= 0) refuse(`promptIds[${negative}]`, promptIds[negative], "Token ids are 0 or more.")
  if (!isCount(n)) refuse("n", n, "Ask for 1 or more completions.")
  if (request.cacheSalt === "") refuse("cacheSalt", "''", "Leave it out, or give some text.")
  checkSampling(sampling)
}

function checkSampling(sampling: Sampling): void {
  const { temperature, topP, topK, minP, repetitionPenalty, maxTokens, seed } = sampling
  if (!isCount(maxTokens)) refuse("sampling.maxTokens", maxTokens, "Use a whole number of 1 or more.")
  if (!(temperature >= 0 && Number.isFinite(temperature))) refuse("sampling.temperature", temperature, "Use 0 (greedy) or more.")
  if (!(topP > 0 && topP <= 1)) refuse("sampling.topP", topP, "Use a number above 0, up to 1 (off).")
  if (!(Number.isInteger(topK) && topK >= 0)) refuse("sampling.topK", topK, "Use 0 (off) or a whole number.")
  if (!(minP >= 0 && minP <= 1)) refuse("sampling.minP", minP, "Use a number from 0 (off) to 1.")
  if (!(repetitionPenalty > 0 && Number.isFinite(repetitionPenalty)))
    refuse("sampling.repetitionPenalty", repetitionPenalty, "Use 1 (off) or another number above 0.")
  if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) refuse("sampling.seed", seed, "Use a whole number of 0 or more.")
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

function refuse(field: string, value: unknown, hint: string): never {
  throw new CohortError("inference_rejected", `generate: ${field} is ${String(value)}`, { hint, details: { field, value } })
}
