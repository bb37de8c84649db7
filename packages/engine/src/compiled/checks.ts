// What a runner refuses before it computes: ids and positions outside the arrays would read foreign memory, or be clamped in silence.
import { CohortError } from "@cohort/errors"
import type { RunnerInfo, SlotInput } from "../runner.ts"

function refuse(message: string): never {
  throw new CohortError("inference_rejected", message)
}

/** @throws CohortError `config_invalid` naming the size */
export function checkSizes({ slots, maxModelLength }: { readonly slots: number; readonly maxModelLength: number }): void {
  for (const [name, size] of Object.entries({ slots, maxModelLength }))
    if (!Number.isInteger(size) || size < 1) throw new CohortError("config_invalid", `${name} is ${size}; a whole number of at least 1 is needed`)
}

export function checkTokens(info: RunnerInfo, tokenIds: Int32Array, what: string): void {
  if (tokenIds.length > info.maxModelLength) refuse(`${what}: ${tokenIds.length} tokens are more than the context of ${info.maxModelLength}`)
  const wrong = tokenIds.find((id) => id < 0 || id >= info.vocabSize)
  if (wrong !== undefined) refuse(`${what}: token ${wrong} is outside the vocabulary of ${info.vocabSize}`)
}

function checkSlot(info: RunnerInfo, slot: number, used: Set<number>, what: string): void {
  if (!Number.isInteger(slot) || slot < 0 || slot >= info.slots) refuse(`${what}: there is no slot ${slot}, the runner has ${info.slots}`)
  if (used.has(slot)) refuse(`${what}: slot ${slot} is given twice`)
  used.add(slot)
}

export function checkPrompts(info: RunnerInfo, requests: readonly { readonly tokenIds: Int32Array; readonly slots: readonly number[] }[]): void {
  const used = new Set<number>()
  for (const { tokenIds, slots } of requests) {
    checkTokens(info, tokenIds, "prefill")
    for (const slot of slots) checkSlot(info, slot, used, "prefill")
  }
}

export function checkInputs(info: RunnerInfo, inputs: readonly SlotInput[], steps: number): void {
  if (inputs.length === 0) refuse("decode: no inputs")
  if (!info.chunkSizes.includes(steps)) refuse(`decode: ${steps} steps are none of the chunk sizes ${info.chunkSizes.join(", ")}`)
  const used = new Set<number>()
  for (const { slot, position, lastToken, history } of inputs) {
    checkSlot(info, slot, used, "decode")
    if (position < 0 || position + steps > info.maxModelLength) refuse(`decode: position ${position} and ${steps} steps pass the context of ${info.maxModelLength}`)
    if (lastToken < 0 || lastToken >= info.vocabSize) refuse(`decode: token ${lastToken} is outside the vocabulary of ${info.vocabSize}`)
    const wrong = history.find((id) => id < 0 || id >= info.vocabSize)
    if (wrong !== undefined) refuse(`decode: history token ${wrong} is outside the vocabulary of ${info.vocabSize}`)
  }
}

/** Rungs of the number of top tokens, so that few programs are compiled. */
const topRungs = [1, 5, 20]

/** How many top tokens the program returns when `wanted` are asked for. */
export function clampTop(wanted: number, vocabSize: number): number {
  return wanted === 0 ? 0 : Math.min(vocabSize, topRungs.find((rung) => rung >= wanted) ?? wanted)
}
