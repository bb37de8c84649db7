// Continuous batching as a pure state machine: who waits, who runs in which slot, what the runner computes next.
// The engine asks `next()`, lets the runner compute it and reports back; nothing here awaits, reads a clock or draws.
import { CohortError } from "@cohort/errors"

import { chooseChunk } from "./chunk.ts"
import type { ChunkOutput, RunnerInfo, SlotInput } from "./runner.ts"
import { createStopRates } from "./stop-rates.ts"
import { createSequence, lastTokenOf, outputLimit, tokensOf, type Finish, type Sequence, type SequenceSpec } from "./sequence.ts"

/** "run" admits and decodes, "drain" only finishes what has started, "frozen" computes nothing. */
export type SchedulerMode = "run" | "drain" | "frozen"

export interface PrefillStep {
  readonly kind: "prefill"
  readonly requests: readonly { readonly tokenIds: Int32Array; readonly slots: readonly number[] }[]
}

export interface DecodeStep {
  readonly kind: "decode"
  readonly inputs: readonly SlotInput[]
  readonly steps: number
  readonly topLogProbs: number
  readonly sequences: readonly Sequence[]
}

export type SchedulerStep = PrefillStep | DecodeStep | { readonly kind: "idle" }

/** New tokens of one sequence: those from index `from` on. */
export interface Progress {
  readonly sequence: Sequence
  readonly from: number
}

/** Sums since the start, in tokens or events. */
export interface SchedulerCounters {
  promptTokens: number
  /** Prompt tokens that another sequence's prefill covered. */
  sharedPromptTokens: number
  generationTokens: number
  /** Decoded rows thrown away because they lay past an end. */
  wastedTokens: number
  preemptions: number
  prefillCalls: number
  decodeCalls: number
  finished: Record<Finish["reason"], number>
}

export interface Scheduler {
  /** Most tokens that prompt and output may have together. */
  readonly contextLength: number
  readonly counters: Readonly<SchedulerCounters>
  readonly running: number
  readonly waiting: number
  /** Queues a sequence behind all others. Throws `inference_rejected` for a prompt that leaves no room. */
  add(spec: SequenceSpec): Sequence
  /** Ends a sequence now; a call that is being computed for it is ignored. No effect after its end. */
  abort(sequence: Sequence): void
  /** Ends all, running first, and returns them. */
  abortAll(): readonly Sequence[]
  setMode(mode: SchedulerMode): void
  /** Declares every cache stale: running sequences go back to the head of the queue and are prefilled again with what they have. */
  preemptAll(): void
  next(): SchedulerStep
  /** Takes the runner's answer to a decode step; tokens past an end are cut. `label` names the weights that computed it. */
  decoded(step: DecodeStep, output: ChunkOutput, label: string): readonly Progress[]
}

/**
 * Creates the scheduler of one runner.
 *
 * @example
 * const scheduler = createScheduler(runner.info)
 * scheduler.add(spec)
 * const step = scheduler.next() // prefill, then decode, then idle
 */
export function createScheduler(info: RunnerInfo): Scheduler {
  if (info.chunkSizes.length === 0 || info.slots < 1)
    throw new CohortError("inference_failed", `The runner offers ${info.slots} slots and chunk sizes [${info.chunkSizes.join(", ")}]; at least one of each is needed.`)

  // A decode call writes a whole chunk into the cache, so a sequence ends where the shortest chunk no longer fits.
  const contextLength = info.maxModelLength - (info.chunkSizes[0]! - 1)
  let waiting: Sequence[] = []
  let running: Sequence[] = []
  let mode: SchedulerMode = "run"
  let nextId = 0
  const stopRates = createStopRates()
  const freeSlots = Array.from({ length: info.slots }, (_, index) => info.slots - 1 - index)
  const counters: SchedulerCounters = {
    promptTokens: 0,
    sharedPromptTokens: 0,
    generationTokens: 0,
    wastedTokens: 0,
    preemptions: 0,
    prefillCalls: 0,
    decodeCalls: 0,
    finished: { stop: 0, length: 0, abort: 0 },
  }

  function release(sequence: Sequence): void {
    if (sequence.slot !== undefined) freeSlots.push(sequence.slot)
    sequence.slot = undefined
  }

  function end(sequence: Sequence, finish: Finish): void {
    sequence.finish = finish
    counters.finished[finish.reason]++
    release(sequence)
  }

  /** Moves sequences from the queue into free slots; equal token contents share one prefill. */
  function admit(): PrefillStep | undefined {
    if (freeSlots.length === 0 || waiting.length === 0) return undefined
    const groups = new Map<string, { tokenIds: Int32Array; slots: number[] }>()
    const kept: Sequence[] = []
    for (const sequence of waiting) {
      if (freeSlots.length === 0 || (mode === "drain" && !sequence.started)) {
        kept.push(sequence)
        continue
      }
      const slot = freeSlots.pop()!
      sequence.slot = slot
      running.push(sequence)
      const tokenIds = tokensOf(sequence, 1)
      const key = tokenIds.join()
      const group = groups.get(key)
      if (!sequence.started) counters.promptTokens += sequence.spec.promptIds.length
      if (!sequence.started && group !== undefined) counters.sharedPromptTokens += tokenIds.length
      sequence.started = true
      if (group === undefined) groups.set(key, { tokenIds, slots: [slot] })
      else group.slots.push(slot)
    }
    waiting = kept
    // A prompt of one token has nothing to prefill: decode feeds its only token.
    const requests = [...groups.values()].filter((group) => group.tokenIds.length > 0)
    if (requests.length === 0) return undefined
    counters.prefillCalls++
    return { kind: "prefill", requests }
  }

  function decodeStep(): DecodeStep | undefined {
    if (running.length === 0) return undefined
    const steps = chooseChunk({
      chunkSizes: info.chunkSizes,
      rows: running.map(({ spec, outputIds }) => ({ made: outputIds.length, left: outputLimit(spec, contextLength) - outputIds.length })),
      // The last token drawn is not cached, hence one more than the room left.
      longest: info.maxModelLength + 1 - Math.max(...running.map((one) => one.spec.promptIds.length + one.outputIds.length)),
      stopRate: stopRates.after,
    })
    counters.decodeCalls++
    return {
      kind: "decode",
      inputs: running.map(slotInput),
      steps,
      topLogProbs: Math.max(...running.map((sequence) => sequence.spec.topLogProbs)),
      sequences: [...running],
    }
  }

  function accept(sequence: Sequence, tokenId: number, label: string): void {
    const { spec, outputIds, versions } = sequence
    if (versions.at(-1)?.[1] !== label) versions.push([outputIds.length, label])
    outputIds.push(tokenId)
    counters.generationTokens++
    const mayStop = outputIds.length >= spec.minTokens
    const stopReason = mayStop ? spec.stopTokens.get(tokenId) : undefined
    const matched = spec.watch?.(tokenId, stopReason !== undefined)
    // The watcher may have ended its whole request.
    if (sequence.finish !== undefined) return
    stopRates.drew(outputIds.length - 1, stopReason !== undefined || (matched !== undefined && mayStop))
    if (stopReason !== undefined) end(sequence, { reason: "stop", stopReason })
    else if (matched !== undefined && mayStop) end(sequence, { reason: "stop", stopReason: matched })
    else if (outputIds.length >= outputLimit(spec, contextLength)) end(sequence, { reason: "length", stopReason: null })
  }

  return {
    contextLength,
    counters,
    get running() {
      return running.length
    },
    get waiting() {
      return waiting.length
    },
    add(spec) {
      if (spec.promptIds.length === 0 || outputLimit(spec, contextLength) < 1)
        throw new CohortError("inference_rejected", `A prompt of ${spec.promptIds.length} tokens with max_tokens ${spec.maxTokens} cannot generate in a context of ${contextLength}.`, {
          hint: "Shorten the prompt, or start the engine with a longer context.",
          details: { promptTokens: spec.promptIds.length, maxTokens: spec.maxTokens, contextLength },
        })
      const sequence = createSequence(nextId++, spec)
      waiting.push(sequence)
      return sequence
    },
    abort(sequence) {
      if (sequence.finish !== undefined) return
      end(sequence, { reason: "abort", stopReason: null })
      waiting = waiting.filter((one) => one !== sequence)
      running = running.filter((one) => one !== sequence)
    },
    abortAll() {
      const all = [...running, ...waiting]
      for (const sequence of all) end(sequence, { reason: "abort", stopReason: null })
      running = []
      waiting = []
      return all
    },
    setMode(next) {
      mode = next
    },
    preemptAll() {
      counters.preemptions += running.length
      for (const sequence of running) release(sequence)
      waiting = [...running, ...waiting]
      running = []
    },
    next() {
      if (mode === "frozen") return { kind: "idle" }
      return admit() ?? decodeStep() ?? { kind: "idle" }
    },
    decoded(step, output, label) {
      checkOutput(step, output)
      const progress: Progress[] = []
      const width = step.topLogProbs
      step.sequences.forEach((sequence, row) => {
        if (sequence.finish !== undefined) return
        const from = sequence.outputIds.length
        for (let column = 0; column < output.steps; column++) {
          if (sequence.finish !== undefined) {
            counters.wastedTokens += output.steps - column
            break
          }
          const cell = row * output.steps + column
          sequence.logProbs.push(output.logProbs[cell]!)
          if (sequence.spec.topLogProbs > 0) sequence.topTokens.push(topTokens(output, cell, width, sequence.spec.topLogProbs))
          accept(sequence, output.tokenIds[cell]!, label)
        }
        progress.push({ sequence, from })
      })
      running = running.filter((sequence) => sequence.finish === undefined)
      return progress
    },
  }
}

function slotInput(sequence: Sequence): SlotInput {
  const { spec } = sequence
  return {
    slot: sequence.slot!,
    lastToken: lastTokenOf(sequence),
    position: spec.promptIds.length + sequence.outputIds.length - 1,
    seed: spec.seed,
    temperature: spec.temperature,
    topP: spec.topP,
    topK: spec.topK,
    minP: spec.minP,
    repetitionPenalty: spec.repetitionPenalty,
    history: spec.repetitionPenalty === 1 ? new Int32Array(0) : tokensOf(sequence),
  }
}

function topTokens(output: ChunkOutput, cell: number, width: number, wanted: number) {
  const start = cell * width
  return {
    tokenIds: Array.from(output.topTokenIds!.subarray(start, start + wanted)),
    logProbs: Array.from(output.topLogProbs!.subarray(start, start + wanted)),
  }
}

function checkOutput(step: DecodeStep, output: ChunkOutput): void {
  const cells = step.inputs.length * step.steps
  const top = cells * step.topLogProbs
  const right =
    output.steps === step.steps &&
    output.tokenIds.length === cells &&
    output.logProbs.length === cells &&
    (top === 0 || (output.topTokenIds?.length === top && output.topLogProbs?.length === top))
  if (!right)
    throw new CohortError("inference_failed", `The runner answered ${output.tokenIds.length} tokens and ${output.logProbs.length} log-probs for ${step.inputs.length} rows of ${step.steps} steps.`)
}
