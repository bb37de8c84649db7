import { describe, expect, test } from "bun:test"
import fc from "fast-check"

import { createScheduler, type DecodeStep, type Scheduler } from "./scheduler.ts"
import type { Sequence, SequenceSpec } from "./sequence.ts"
import { createHashRunner, weightsOf, type HashRunner, type HashRunnerOptions } from "./testing/index.ts"

function spec(overrides: Partial<SequenceSpec> = {}): SequenceSpec {
  return {
    promptIds: Int32Array.of(1, 2, 3),
    maxTokens: 10,
    minTokens: 0,
    temperature: 1,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    seed: 5,
    stopTokens: new Map(),
    topLogProbs: 0,
    ...overrides,
  }
}

/** One scheduler step on the runner; false when there was nothing to do. */
async function turn(scheduler: Scheduler, runner: HashRunner, label = "1"): Promise<boolean> {
  const step = scheduler.next()
  if (step.kind === "idle") return false
  if (step.kind === "prefill") await runner.prefill(step.requests)
  else scheduler.decoded(step, await runner.decode(step.inputs, step.steps, step.topLogProbs), label)
  return true
}

async function drain(scheduler: Scheduler, runner: HashRunner, label = "1"): Promise<void> {
  while (await turn(scheduler, runner, label));
}

async function alone(one: SequenceSpec, options: HashRunnerOptions = {}): Promise<Sequence> {
  const runner = createHashRunner({ ...options, slots: 1, chunkSizes: [1] })
  const scheduler = createScheduler(runner.info)
  const sequence = scheduler.add(one)
  await drain(scheduler, runner)
  return sequence
}

const anySpec = fc
  .record({
    prompt: fc.array(fc.nat(31), { minLength: 1, maxLength: 12 }),
    maxTokens: fc.integer({ min: 1, max: 80 }),
    temperature: fc.constantFrom(0, 0.7, 1),
    topK: fc.constantFrom(0, 5),
    topP: fc.constantFrom(1, 0.8),
    repetitionPenalty: fc.constantFrom(1, 1.3),
    seed: fc.nat(),
    stop: fc.option(fc.nat(31), { nil: undefined }),
    topLogProbs: fc.nat(3),
  })
  .map(({ prompt, stop, ...rest }) => spec({ ...rest, promptIds: Int32Array.from(prompt), stopTokens: new Map(stop === undefined ? [] : [[stop, stop]]) }))

describe("a sequence's tokens", () => {
  test("are the same whatever else is in the batch", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anySpec, { minLength: 1, maxLength: 9 }), fc.integer({ min: 1, max: 4 }), async (specs, slots) => {
        const runner = createHashRunner({ slots })
        const scheduler = createScheduler(runner.info)
        const sequences = specs.map((one) => scheduler.add(one))
        await drain(scheduler, runner)
        for (const sequence of sequences) {
          const expected = await alone(sequence.spec)
          expect(sequence.outputIds).toEqual(expected.outputIds)
          expect(sequence.logProbs).toEqual(expected.logProbs)
          expect(sequence.topTokens).toEqual(expected.topTokens)
          expect(sequence.finish).toEqual(expected.finish)
        }
        expect(scheduler.running + scheduler.waiting).toBe(0)
      }),
      { numRuns: 60, seed: 1 },
    )
  })

  test("stop at the stop token, which is kept, and nothing after it", async () => {
    const free = await alone(spec())
    const stopId = free.outputIds[4]!
    const first = free.outputIds.indexOf(stopId)
    const stopped = await alone(spec({ stopTokens: new Map([[stopId, stopId]]) }), {})
    expect(stopped.outputIds).toEqual(free.outputIds.slice(0, first + 1))
    expect(stopped.finish).toEqual({ reason: "stop", stopReason: stopId })
  })

  test("go past stop tokens until minTokens", async () => {
    const free = await alone(spec({ maxTokens: 10 }))
    const everyToken = new Map(Array.from({ length: 32 }, (_, id) => [id, null] as const))
    const sequence = await alone(spec({ stopTokens: everyToken, minTokens: 6 }))
    expect(sequence.outputIds).toEqual(free.outputIds.slice(0, 6))
    expect(sequence.finish).toEqual({ reason: "stop", stopReason: null })
  })

  test("end at the context's end with length, filled to the last token", async () => {
    for (const chunkSizes of [[1, 2, 4, 8], [1], [1, 16], [1, 19]]) {
      const runner = createHashRunner({ maxModelLength: 20, chunkSizes })
      const scheduler = createScheduler(runner.info)
      const sequence = scheduler.add(spec({ maxTokens: 1000 }))
      await drain(scheduler, runner)
      expect(sequence.outputIds.length).toBe(17)
      expect(sequence.finish?.reason).toBe("length")
    }
  })

  test("never run past the cache when the shortest chunk is longer than one token", async () => {
    const runner = createHashRunner({ maxModelLength: 20, chunkSizes: [4, 8] })
    const scheduler = createScheduler(runner.info)
    const sequence = scheduler.add(spec({ maxTokens: 1000 }))
    await drain(scheduler, runner)
    expect(scheduler.contextLength).toBe(17)
    expect(sequence.outputIds.length).toBe(14)
  })

  test("of a one-token prompt need no prefill", async () => {
    const runner = createHashRunner()
    const scheduler = createScheduler(runner.info)
    const sequence = scheduler.add(spec({ promptIds: Int32Array.of(9) }))
    await drain(scheduler, runner)
    expect(runner.calls.prefill).toBe(0)
    expect(sequence.outputIds.length).toBe(10)
  })
})

describe("admission", () => {
  test("refuses a prompt that leaves no room", () => {
    const scheduler = createScheduler(createHashRunner({ maxModelLength: 8 }).info)
    expect(() => scheduler.add(spec({ promptIds: new Int32Array(8) }))).toThrow("cannot generate in a context of 8")
    expect(() => scheduler.add(spec({ promptIds: new Int32Array(0) }))).toThrow()
    expect(() => scheduler.add(spec({ maxTokens: 0 }))).toThrow()
  })

  test("computes one prefill for all completions of one prompt", async () => {
    const runner = createHashRunner({ slots: 8 })
    const scheduler = createScheduler(runner.info)
    for (let child = 0; child < 6; child++) scheduler.add(spec({ seed: child }))
    scheduler.add(spec({ promptIds: Int32Array.of(1, 2, 4, 3) }))
    await drain(scheduler, runner)
    expect(runner.prefills).toEqual([
      { tokens: 2, slots: 6 },
      { tokens: 3, slots: 1 },
    ])
    expect(scheduler.counters.sharedPromptTokens).toBe(10)
    expect(scheduler.counters.promptTokens).toBe(22)
  })

  test("is first come, first served", async () => {
    const runner = createHashRunner({ slots: 1 })
    const scheduler = createScheduler(runner.info)
    const order: number[] = []
    const sequences = [3, 1, 2].map((maxTokens) => scheduler.add(spec({ maxTokens })))
    while (await turn(scheduler, runner)) for (const one of sequences) if (one.finish !== undefined && !order.includes(one.id)) order.push(one.id)
    expect(order).toEqual([0, 1, 2])
  })
})

describe("a change of weights", () => {
  const before = weightsOf("one")

  /** Tokens that weights `w` give after a fixed prefix, computed from scratch. */
  async function continuation(prefix: Int32Array, weights: number, tokens: number): Promise<number[]> {
    return (await alone(spec({ promptIds: prefix, maxTokens: tokens }), { weights })).outputIds
  }

  async function switched(clear: boolean): Promise<{ sequence: Sequence; cut: number; scheduler: Scheduler }> {
    const runner = createHashRunner({ weights: before, chunkSizes: [2] })
    const scheduler = createScheduler(runner.info)
    const sequence = scheduler.add(spec({ maxTokens: 12 }))
    while (sequence.outputIds.length < 4) await turn(scheduler, runner, "1")
    const cut = sequence.outputIds.length
    scheduler.setMode("frozen")
    if (clear) scheduler.preemptAll()
    await runner.loadWeights("two")
    expect(scheduler.next().kind).toBe("idle")
    scheduler.setMode("run")
    await drain(scheduler, runner, "2")
    return { sequence, cut, scheduler }
  }

  test("with cleared caches recomputes from prompt and output", async () => {
    const { sequence, cut, scheduler } = await switched(true)
    const prefix = Int32Array.from([1, 2, 3, ...sequence.outputIds.slice(0, cut)])
    expect(sequence.outputIds.slice(cut)).toEqual(await continuation(prefix, weightsOf("two"), 12 - cut))
    expect(sequence.versions).toEqual([[0, "1"], [cut, "2"]])
    expect(scheduler.counters.preemptions).toBe(1)
  })

  test("with kept caches goes on with the old keys and values", async () => {
    const { sequence, cut, scheduler } = await switched(false)
    const prefix = Int32Array.from([1, 2, 3, ...sequence.outputIds.slice(0, cut)])
    expect(sequence.outputIds.slice(cut)).not.toEqual(await continuation(prefix, weightsOf("two"), 12 - cut))
    expect(sequence.versions).toEqual([[0, "1"], [cut, "2"]])
    expect(scheduler.counters.preemptions).toBe(0)
  })

  test("puts what was running in front of what waits", async () => {
    const runner = createHashRunner({ slots: 1 })
    const scheduler = createScheduler(runner.info)
    const [first, second] = [scheduler.add(spec()), scheduler.add(spec())]
    await turn(scheduler, runner)
    scheduler.preemptAll()
    await turn(scheduler, runner)
    expect([first!.slot, second!.slot]).toEqual([0, undefined])
  })

  test("does not count a preempted prompt twice", async () => {
    const { scheduler } = await switched(true)
    expect(scheduler.counters.promptTokens).toBe(3)
  })
})

describe("draining", () => {
  test("finishes what has started, preempted or not, and starts nothing", async () => {
    const runner = createHashRunner({ slots: 2 })
    const scheduler = createScheduler(runner.info)
    const sequences = [1, 2, 3].map((seed) => scheduler.add(spec({ seed, maxTokens: 20 })))
    await turn(scheduler, runner)
    await turn(scheduler, runner)
    scheduler.preemptAll()
    scheduler.setMode("drain")
    await drain(scheduler, runner)
    expect(sequences.map((one) => one.finish?.reason)).toEqual(["length", "length", undefined])
    expect(sequences[2]!.outputIds).toEqual([])
    scheduler.setMode("run")
    await drain(scheduler, runner)
    expect(sequences[2]!.outputIds.length).toBe(20)
  })
})

test("random adds, aborts, freezes and weight changes lose nothing and mix nothing up", async () => {
  const action = fc.oneof(
    { weight: 3, arbitrary: anySpec.map((one) => ({ kind: "add" as const, one })) },
    { weight: 6, arbitrary: fc.constant({ kind: "turn" as const }) },
    { weight: 1, arbitrary: fc.nat(20).map((index) => ({ kind: "abort" as const, index })) },
    { weight: 1, arbitrary: fc.constantFrom("run", "drain", "frozen").map((mode) => ({ kind: "mode" as const, mode })) },
    { weight: 1, arbitrary: fc.constant({ kind: "load" as const }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), async (actions, slots) => {
      const runner = createHashRunner({ slots, weights: weightsOf("0") })
      const scheduler = createScheduler(runner.info)
      const sequences: Sequence[] = []
      let version = 0
      for (const one of actions) {
        if (one.kind === "add") sequences.push(scheduler.add(one.one))
        else if (one.kind === "turn") await turn(scheduler, runner, String(version))
        else if (one.kind === "abort") sequences.slice(one.index, one.index + 1).forEach((sequence) => scheduler.abort(sequence))
        else if (one.kind === "mode") scheduler.setMode(one.mode as "run")
        else {
          scheduler.preemptAll()
          version++
          await runner.loadWeights(String(version))
        }
        const live = sequences.filter((sequence) => sequence.finish === undefined)
        expect(scheduler.running + scheduler.waiting).toBe(live.length)
        const taken = live.flatMap((sequence) => sequence.slot ?? [])
        expect(new Set(taken).size).toBe(taken.length)
      }
      scheduler.setMode("run")
      await drain(scheduler, runner, String(version))
      for (const sequence of sequences) {
        expect(sequence.finish).toBeDefined()
        expect(sequence.logProbs.length).toBe(sequence.outputIds.length)
        await expectSpansExplainTokens(sequence)
      }
    }),
    { numRuns: 60, seed: 2 },
  )
})

/** Every span's tokens are those that its weights give after everything before the span. */
async function expectSpansExplainTokens(sequence: Sequence): Promise<void> {
  const { spec: asked, outputIds, versions } = sequence
  expect(versions.map(([from]) => from)).toEqual([...new Set(versions.map(([from]) => from))].toSorted((a, b) => a - b))
  for (const [index, [from, label]] of versions.entries()) {
    const to = versions[index + 1]?.[0] ?? outputIds.length
    const promptIds = Int32Array.from([...asked.promptIds, ...outputIds.slice(0, from)])
    const expected = await alone({ ...asked, promptIds, maxTokens: to - from, stopTokens: new Map() }, { weights: weightsOf(label) })
    expect(outputIds.slice(from, to)).toEqual(expected.outputIds)
  }
}

test("an abort while a call is computed ignores that call's tokens", async () => {
  const runner = createHashRunner()
  const scheduler = createScheduler(runner.info)
  const [kept, dropped] = [scheduler.add(spec({ seed: 1 })), scheduler.add(spec({ seed: 2 }))]
  await turn(scheduler, runner)
  const step = scheduler.next() as DecodeStep
  scheduler.abort(dropped!)
  const progress = scheduler.decoded(step, await runner.decode(step.inputs, step.steps, 0), "1")
  expect(progress.map((one) => one.sequence)).toEqual([kept!])
  expect(dropped!.outputIds).toEqual([])
  expect(dropped!.finish).toEqual({ reason: "abort", stopReason: null })
  expect(kept!.outputIds.length).toBeGreaterThan(0)
})

test("a runner's answer of the wrong size is refused", async () => {
  const runner = createHashRunner()
  const scheduler = createScheduler(runner.info)
  scheduler.add(spec())
  await turn(scheduler, runner)
  const step = scheduler.next() as DecodeStep
  expect(() => scheduler.decoded(step, { steps: step.steps, tokenIds: new Int32Array(1), logProbs: new Float32Array(0) }, "1")).toThrow("0 log-probs")
})
