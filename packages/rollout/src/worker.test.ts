// Long because it goes through the whole life of the worker, one story a test.
import { expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import fc from "fast-check"
import { createVirtualClock } from "./testing/virtual-clock.ts"
import { countedPrompts, createWorkerHarness, lengthReward, type WorkerHarness } from "./testing/harness.ts"
import type { SampleGroup, StalenessPolicy } from "./protocol.ts"
import { namedEnvironments } from "./named-environments.ts"
import { downWeightPolicy, dropPolicy, pacedPolicy } from "./staleness.ts"

/** Trains like the run does: takes a step's groups, spends time, pushes weights, raises the version. */
async function train(
  harness: WorkerHarness,
  plan: { readonly steps: number; readonly groupsPerStep: number; readonly stepsPerSync?: number; readonly stepMs?: number },
): Promise<{ readonly groups: SampleGroup[]; readonly ages: number[] }> {
  const { worker, server, clock } = harness
  const iterator = worker.samples[Symbol.asyncIterator]()
  const groups: SampleGroup[] = []
  const ages: number[] = []
  await worker.start()
  for (let version = 0; version < plan.steps; version++) {
    for (let taken = 0; taken < plan.groupsPerStep; taken++) {
      const { done, value } = await iterator.next()
      if (done) return { groups, ages }
      groups.push(value)
      ages.push(version - value.oldestVersion)
    }
    await clock.sleep(plan.stepMs ?? 50)
    if ((version + 1) % (plan.stepsPerSync ?? 1) === 0) server.setVersion(version + 1)
    worker.setPolicyVersion(version + 1)
  }
  return { groups, ages }
}

test("a step's groups come scored, with advantages and behaviour data of equal length", async () => {
  const harness = createWorkerHarness()
  const { groups } = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  const [group] = groups
  expect(group!.samples).toHaveLength(3)
  for (const sample of group!.samples) {
    expect(sample.lossMask).toHaveLength(sample.tokenIds.length)
    expect(sample.behaviorLogProbs).toHaveLength(sample.tokenIds.length)
    expect(sample.versions).toHaveLength(sample.tokenIds.length)
  }
  expect(group!.samples.reduce((sum, { advantage }) => sum + advantage, 0)).toBeCloseTo(0)
  expect(harness.server.requests[0]!.n).toBe(3)
})

test("max staleness 0 is on-policy: one step's groups per version, all of age 0", async () => {
  const harness = createWorkerHarness({ maxStaleness: 0 })
  const { ages } = await harness.clock.run(train(harness, { steps: 5, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(ages).toEqual(Array.from({ length: 10 }, () => 0))
  const perVersion = Map.groupBy(harness.of("group.admitted"), ({ version }) => version)
  for (const version of [0, 1, 2, 3, 4]) expect(perVersion.get(version)).toHaveLength(2)
})

test("the end of the data ends the samples after the last group", async () => {
  const harness = createWorkerHarness({ nextPrompt: countedPrompts(5) })
  const { groups } = await harness.clock.run(train(harness, { steps: 9, groupsPerStep: 2 }))
  expect(groups.map(({ occurrence }) => occurrence).toSorted()).toEqual([0, 1, 2, 3, 4])
  await harness.clock.run(harness.worker.stop())
  expect(harness.givenBack).toEqual([])
})

test("no prompts: the samples end at once", async () => {
  const harness = createWorkerHarness({ nextPrompt: () => undefined })
  const { groups } = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }))
  expect(groups).toEqual([])
  await harness.clock.run(harness.worker.stop())
})

test("stop aborts what is in flight, gives every open occurrence back, leaves no request and no timer", async () => {
  const harness = createWorkerHarness({ maxStaleness: 2 }, { tokenMs: 100 })
  await harness.worker.start()
  await harness.clock.advance(150)
  expect(harness.server.running).toBeGreaterThan(0)
  await harness.clock.run(harness.worker.stop())
  expect(harness.givenBack).toEqual([0, 1, 2, 3, 4, 5])
  expect(harness.of("group.givenBack").map(({ occurrence }) => occurrence)).toEqual([0, 1, 2, 3, 4, 5])
  expect(harness.server.running).toBe(0)
  expect(harness.clock.pending).toBe(0)
  const next = await harness.worker.samples[Symbol.asyncIterator]().next()
  expect(next.done).toBe(true)
  await expect(harness.worker.start()).rejects.toThrow("cannot be started")
})

test("stop is bounded although a server ignores every signal", async () => {
  const harness = createWorkerHarness({ stopTimeoutMs: 200 }, { before: () => new Promise(() => undefined) })
  await harness.worker.start()
  await harness.clock.advance(10)
  await harness.clock.run(harness.worker.stop(), 300)
  expect(harness.givenBack).toHaveLength(4)
})

test("one failure in twenty is retried and the run goes on", async () => {
  const harness = createWorkerHarness({}, {
    before: (_request, count) => {
      if (count % 20 === 3) throw new CohortError("inference_failed", "500: out of luck")
    },
  })
  const { groups } = await harness.clock.run(train(harness, { steps: 15, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(groups).toHaveLength(30)
  expect(harness.of("rollout.retried").length).toBeGreaterThan(0)
  expect(harness.of("group.dropped")).toEqual([])
})

test("a server that always fails stops the run with its own words, and everything is given back or dropped", async () => {
  const harness = createWorkerHarness({}, {
    before: () => {
      throw new CohortError("inference_failed", "500: model is gone")
    },
  })
  const failure = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }).catch((error: unknown) => error))
  expect(failure).toBeInstanceOf(CohortError)
  expect(String(failure)).toContain("500: model is gone")
  expect((failure as CohortError).code).toBe("inference_failed")
  expect(((failure as CohortError).cause as CohortError).code).toBe("inference_failed")
  expect(harness.worker.status.state).toBe("failed")
  expect(harness.worker.status.lastError).toContain("500: model is gone")
  const ended = [...harness.of("group.dropped").map(({ occurrence }) => occurrence!), ...harness.givenBack]
  expect(ended.toSorted((a, b) => a - b)).toEqual(harness.of("group.admitted").map(({ occurrence }) => occurrence!))
  await harness.clock.run(harness.worker.stop())
  expect(harness.clock.pending).toBe(0)
})

test("a reward that aborts fails the worker as reward_failed with its name and words; one that drops does not", async () => {
  const broken = { ...lengthReward, name: "judge", reward: () => Promise.reject(new Error("no route")) } as const
  const harness = createWorkerHarness({ rewards: [lengthReward, { ...broken, onFailure: "abort" }] })
  const failure = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }).catch((error: unknown) => error))
  expect(failure).toMatchObject({ code: "reward_failed" })
  expect(String(failure)).toContain("reward judge failed after 1 try on row row-0: judge: threw no route")
  const ended = [...harness.of("group.dropped").map(({ occurrence }) => occurrence!), ...harness.givenBack]
  expect(ended.toSorted((a, b) => a - b)).toEqual(harness.of("group.admitted").map(({ occurrence }) => occurrence!))
  await harness.clock.run(harness.worker.stop())
  const dropping = createWorkerHarness({ rewards: [{ ...broken, onFailure: "drop" }], maxConsecutiveFailures: 4 })
  await dropping.clock.run(train(dropping, { steps: 1, groupsPerStep: 2 }).catch((error: unknown) => error))
  expect(dropping.of("group.dropped")).toHaveLength(4)
  await dropping.clock.run(dropping.worker.stop())
})

test("requests that never answer free their places at the request's deadline", async () => {
  const hanging = new Set([0, 1, 2])
  const harness = createWorkerHarness(
    { limits: { maxModelLength: 4096, maxTurns: 1, generateTimeoutMs: 2000, toolTimeoutMs: 1, environmentTimeoutMs: 1, episodeTimeoutMs: 9000, forkThresholdTokens: 8 } },
    { before: (_request, count) => (hanging.has(count) ? new Promise(() => undefined) : undefined) },
  )
  const { groups } = await harness.clock.run(train(harness, { steps: 4, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(groups).toHaveLength(8)
  expect(harness.of("rollout.retried").map(({ reason }) => reason)).toContain("generation_timeout")
  for (const count of hanging) expect(harness.server.requests[count]!.signal.aborted).toBe(true)
})

test("a rejected request is not repeated; a prompt that does not fit is dropped by name", async () => {
  const harness = createWorkerHarness({
    nextPrompt: (() => {
      let next = 0
      return () => {
        const occurrence = next++
        return { occurrence, row: { id: `r${occurrence}`, prompt: occurrence === 1 ? "x".repeat(5000) : "short" } }
      }
    })(),
  }, {
    before: (_request, count) => {
      if (count === 0) throw new CohortError("inference_rejected", "400: bad request")
    },
  })
  await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(harness.of("group.dropped").map(({ occurrence, reason }) => [occurrence, reason]).toSorted()).toEqual([
    [0, "inference_rejected"],
    [1, "prompt_too_long"],
  ])
  expect(harness.of("rollout.retried")).toEqual([])
})

test("a broken member leaves its group, the rest is trained; below two the group is dropped", async () => {
  const harness = createWorkerHarness({ rules: { maxAttempts: 1, minMembers: 2 } }, {
    after: (generations, count) => generations.map((generation, index) => {
      const broken = count === 0 ? index === 1 : count === 1 && index < 2
      return broken ? { ...generation, logProbs: generation.logProbs.map(() => Number.NaN) } : generation
    }),
  })
  const { groups } = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(groups.find(({ occurrence }) => occurrence === 0)!.samples).toHaveLength(2)
  expect(harness.of("group.dropped").map(({ occurrence, reason }) => [occurrence, reason])).toEqual([[1, "generation_invalid"]])
})

test("a failed reward drops its rollout instead of scoring it zero", async () => {
  const reward = {
    name: "shaky", weight: 1, timeoutMs: 500, maxAttempts: 2,
    reward: (rollout: { readonly completionIds: Int32Array }) => {
      if (rollout.completionIds[0]! % 5 === 0) throw new Error("no verdict")
      return rollout.completionIds.length
    },
  }
  const harness = createWorkerHarness({ rewards: [reward], groupSize: 6 })
  const { groups } = await harness.clock.run(train(harness, { steps: 2, groupsPerStep: 2 }))
  await harness.clock.run(harness.worker.stop())
  expect(harness.of("rollout.failed").length).toBeGreaterThan(0)
  expect(groups.some(({ samples }) => samples.length < 6)).toBe(true)
  for (const group of groups) expect(group.rewardMean).toBeGreaterThan(0)
})

test("zero spread: kept with advantage 0, or dropped and replaced", async () => {
  const flat = { name: "flat", weight: 1, timeoutMs: 500, maxAttempts: 1, reward: () => 0.1 }
  const kept = createWorkerHarness({ rewards: [flat], advantages: () => [9, 9, 9] })
  const { groups } = await kept.clock.run(train(kept, { steps: 1, groupsPerStep: 1 }))
  expect(groups[0]!.samples.map(({ advantage }) => advantage)).toEqual([0, 0, 0])
  await kept.clock.run(kept.worker.stop())
  const filtered = createWorkerHarness({ rewards: [flat], filterZeroSpread: true, maxConsecutiveFiltered: 7 })
  const failure = await filtered.clock.run(train(filtered, { steps: 1, groupsPerStep: 1 }).catch((error: unknown) => error))
  expect(String(failure)).toContain("7 groups in a row were dropped")
  expect(filtered.of("group.dropped").every(({ reason }) => reason === "zero_spread")).toBe(true)
})

test("a released group ends as dropped and another takes its place, also on-policy", async () => {
  const harness = createWorkerHarness({ maxStaleness: 0, groupsPerStep: 1 })
  const iterator = harness.worker.samples[Symbol.asyncIterator]()
  await harness.worker.start()
  const first = (await harness.clock.run(iterator.next())).value as SampleGroup
  harness.worker.release(first.occurrence, "too_long_to_batch")
  const second = (await harness.clock.run(iterator.next())).value as SampleGroup
  expect(second.occurrence).not.toBe(first.occurrence)
  expect(harness.of("group.dropped")).toMatchObject([{ occurrence: first.occurrence, reason: "too_long_to_batch" }])
  expect(() => harness.worker.release(first.occurrence, "again")).toThrow("was not taken")
  await harness.clock.run(harness.worker.stop())
})

test("a sync in the middle of a completion: the tokens carry both versions and the group the older", async () => {
  const harness = createWorkerHarness({ maxStaleness: 3 }, { tokenMs: 100, complete: () => ({ tokenIds: [97, 98, 99, 0] }), version: 0 })
  const iterator = harness.worker.samples[Symbol.asyncIterator]()
  await harness.worker.start()
  await harness.clock.advance(150)
  await harness.worker.pause()
  harness.server.setVersion(1)
  harness.worker.setPolicyVersion(1)
  await harness.worker.resume()
  const { value } = await harness.clock.run(iterator.next())
  const group = value as SampleGroup
  expect(group.oldestVersion).toBe(0)
  expect(Array.from(group.samples[0]!.versions.slice(-4))).toEqual([0, 0, 1, 1])
  await harness.clock.run(harness.worker.stop())
})

test("a paused worker starts nothing and finishes what runs", async () => {
  const harness = createWorkerHarness({ maxStaleness: 5 })
  await harness.worker.start()
  await harness.worker.pause()
  const admitted = harness.of("group.admitted").length
  await harness.clock.advance(5000)
  expect(harness.of("group.admitted")).toHaveLength(admitted)
  expect(harness.worker.status).toMatchObject({ state: "paused", groupsInFlight: 0 })
  await harness.worker.resume()
  await harness.clock.advance(5000)
  expect(harness.of("group.admitted").length).toBeGreaterThan(admitted)
  await harness.clock.run(harness.worker.stop())
})

test("a slow trainer stops admission and the heartbeat goes on", async () => {
  const harness = createWorkerHarness({ policy: dropPolicy, queueCapacity: 2, maxGroupsInFlight: 3 })
  await harness.worker.start()
  await harness.clock.advance(20_000)
  expect(harness.worker.status.queueDepth).toBe(5)
  expect(harness.of("group.admitted")).toHaveLength(5)
  expect(harness.worker.status.heartbeatAtMs).toBe(20_000)
  await harness.clock.run(harness.worker.stop())
  expect(harness.givenBack).toHaveLength(5)
})

test("rollouts on the servers are bounded, and a group's finished members make room before the group is over", async () => {
  const harness = createWorkerHarness({ policy: dropPolicy, maxConcurrentRollouts: 7, queueCapacity: 50, maxGroupsInFlight: 50 })
  await harness.worker.start()
  let most = 0
  for (let i = 0; i < 100; i++) {
    most = Math.max(most, harness.worker.status.rolloutsInFlight)
    await harness.clock.advance(7)
  }
  expect(most).toBe(6)
  await harness.clock.run(harness.worker.stop())
})

test("a stopped worker has given back a prompt that was still being read, when stop resolves", async () => {
  const clock = createVirtualClock()
  const harness = createWorkerHarness({
    clock,
    nextPrompt: async () => {
      await clock.sleep(200)
      return { occurrence: 9, row: { id: "r9", prompt: "p" } }
    },
  })
  await clock.run(
    (async () => {
      await harness.worker.start()
      await clock.sleep(50)
      await harness.worker.stop()
      expect(harness.givenBack).toEqual([9])
    })(),
  )
})

test("a prompt that arrives after the stop goes back", async () => {
  const late = Promise.withResolvers<undefined | { occurrence: number; row: { id: string; prompt: string } }>()
  const harness = createWorkerHarness({ nextPrompt: () => late.promise })
  await harness.worker.start()
  await harness.clock.run(harness.worker.stop())
  expect(harness.givenBack).toEqual([])
  late.resolve({ occurrence: 4, row: { id: "r4", prompt: "p" } })
  await harness.clock.advance(1)
  expect(harness.givenBack).toEqual([4])
  expect(harness.of("group.admitted")).toEqual([])
})

test("the drop policy counts what it drops; down-weighting sets the weights", async () => {
  const slow = { complete: () => ({ tokenIds: [97, 98, 0] }) }
  const dropping = createWorkerHarness({ policy: dropPolicy, maxStaleness: 0 }, slow)
  const { ages } = await dropping.clock.run(train(dropping, { steps: 4, groupsPerStep: 2 }))
  await dropping.clock.run(dropping.worker.stop())
  expect(ages.every((age) => age === 0)).toBe(true)
  expect(dropping.of("group.dropped").filter(({ reason }) => reason === "stale").length).toBeGreaterThan(0)
  const weighting = createWorkerHarness({ policy: downWeightPolicy({ factor: 0.5, minWeight: 0.001 }), maxStaleness: 0 }, slow)
  const weighted = await weighting.clock.run(train(weighting, { steps: 4, groupsPerStep: 2 }))
  await weighting.clock.run(weighting.worker.stop())
  for (const [index, group] of weighted.groups.entries()) expect(group.samples[0]!.weight).toBe(0.5 ** weighted.ages[index]!)
  expect(Math.max(...weighted.ages)).toBeGreaterThan(0)
})

test("a ledger that refuses events fails the worker with that cause", async () => {
  const refusal = new CohortError("disk_full", "no room")
  const harness = createWorkerHarness({
    emit: ({ kind }) => {
      if (kind === "group.completed") throw refusal
    },
  })
  const failure = await harness.clock.run(train(harness, { steps: 1, groupsPerStep: 2 }).catch((error: unknown) => error))
  expect((failure as CohortError).cause).toBe(refusal)
  await harness.clock.run(harness.worker.stop())
})

test("a source of prompts that throws or hangs fails the worker with its name", async () => {
  const throwing = createWorkerHarness({
    nextPrompt: () => {
      throw new Error("row 7 is broken")
    },
  })
  const thrown = await throwing.clock.run(train(throwing, { steps: 1, groupsPerStep: 1 }).catch((error: unknown) => error))
  expect(String(thrown)).toContain("row 7 is broken")
  const hanging = createWorkerHarness({ nextPrompt: () => new Promise(() => undefined), promptTimeoutMs: 700 })
  const hung = await hanging.clock.run(train(hanging, { steps: 1, groupsPerStep: 1 }).catch((error: unknown) => error))
  expect(String(hung)).toContain("reading the next prompt took longer than 700 ms")
})

test("settings under which nothing could be trained are refused by name", () => {
  expect(() => createWorkerHarness({ maxStaleness: 1, stepsPerSync: 4 })).toThrow("maxStaleness is 1")
  expect(() => createWorkerHarness({ maxConcurrentRollouts: 2 })).toThrow("maxConcurrentRollouts is 2")
  expect(() => createWorkerHarness({ queueCapacity: 0 })).toThrow("queueCapacity is 0")
  expect(() => createWorkerHarness().worker.setPolicyVersion(-1)).toThrow("never go back")
})

const policies: readonly StalenessPolicy[] = [pacedPolicy, dropPolicy, downWeightPolicy({ minWeight: 0.01 })]

test("in any schedule: nothing lost, nothing twice, paced groups within the bound and never dropped for age, no deadlock", async () => {
  const schedule = fc.record({
    seed: fc.nat(1000),
    policy: fc.nat(2),
    groupsPerStep: fc.integer({ min: 1, max: 4 }),
    stepsPerSync: fc.integer({ min: 1, max: 3 }),
    slack: fc.integer({ min: 0, max: 3 }),
    queueCapacity: fc.integer({ min: 1, max: 6 }),
    maxGroupsInFlight: fc.integer({ min: 1, max: 8 }),
    stepMs: fc.integer({ min: 1, max: 400 }),
    failEvery: fc.integer({ min: 3, max: 12 }),
    slowEvery: fc.integer({ min: 2, max: 9 }),
    prompts: fc.integer({ min: 0, max: 60 }),
  })
  await fc.assert(
    fc.asyncProperty(schedule, async (plan) => {
      const policy = policies[plan.policy]!
      const maxStaleness = plan.stepsPerSync - 1 + plan.slack
      const { groupsPerStep, stepsPerSync, queueCapacity, maxGroupsInFlight } = plan
      const clock = createVirtualClock()
      const harness = createWorkerHarness(
        { policy, maxStaleness, groupsPerStep, stepsPerSync, queueCapacity, maxGroupsInFlight, maxConcurrentRollouts: 3 * maxGroupsInFlight,
          nextPrompt: countedPrompts(plan.prompts), maxConsecutiveFailures: 1000, maxConsecutiveFiltered: 1000, clock, rules: { maxAttempts: 2, minMembers: 2 } },
        { clock, seed: plan.seed, before: async (request, count) => {
          if (count % plan.slowEvery === 1) await clock.sleep(3000, request.signal)
          if (count % plan.failEvery === 2) throw new CohortError("inference_failed", "500")
        } },
      )
      const run = { ...harness, clock }
      const { groups, ages } = await clock.run(train(run, { steps: 12, groupsPerStep, stepsPerSync, stepMs: plan.stepMs }))
      await clock.run(harness.worker.stop())
      const admitted = harness.of("group.admitted").map(({ occurrence }) => occurrence!)
      const dropped = harness.of("group.dropped")
      const ended = [...groups.map(({ occurrence }) => occurrence), ...dropped.map(({ occurrence }) => occurrence!), ...harness.givenBack]
      expect(new Set(admitted).size).toBe(admitted.length)
      // A prompt read at the very end may come back without having been admitted.
      expect(ended.filter((occurrence) => admitted.includes(occurrence)).toSorted((a, b) => a - b)).toEqual(admitted)
      expect(new Set(ended).size).toBe(ended.length)
      if (policy !== policies[2]) for (const age of ages) expect(age).toBeLessThanOrEqual(maxStaleness)
      if (policy === pacedPolicy) expect(dropped.filter(({ reason }) => reason === "stale")).toEqual([])
      expect(clock.pending).toBe(0)
      expect(harness.server.running).toBe(0)
    }),
    { seed: 3, numRuns: 60 },
  )
})

test("a clock that ends an aborted sleep quietly does not bring a dropped group back to life", async () => {
  const clock = createVirtualClock()
  const quiet = { ...clock, sleep: (ms: number, signal?: AbortSignal) => clock.sleep(ms, signal).catch(() => undefined) }
  const harness = createWorkerHarness(
    { clock: quiet, groupSize: 2, retryDelayMs: 1000, environmentOf: () => () => ({ reset: () => undefined }), nextPrompt: countedPrompts(1) },
    { clock, before: async (_request, count) => {
      if (count % 2 === 0) throw new CohortError("inference_failed", "500")
      await clock.sleep(500)
      throw new CohortError("inference_rejected", "400")
    } },
  )
  await harness.worker.start()
  await clock.advance(5_000)
  expect(harness.worker.status.state).toBe("running")
  expect(harness.of("group.dropped")).toMatchObject([{ reason: "inference_rejected" }])
  await clock.run(harness.worker.stop())
})

test("a group carries where its time went: tools, scoring, and what held it up before it started", async () => {
  let score = 0
  const harness = createWorkerHarness(
    { maxStaleness: 0, groupsPerStep: 1, rewards: [{ ...lengthReward, reward: async () => {
      await harness.clock.sleep(70)
      return score++
    } }], environmentOf: () => () => ({
      tools: { look: { description: "", run: () => harness.clock.sleep(300).then(() => "seen") } },
      reset: () => undefined,
    }) },
    { tokenMs: 10, complete: (request) => ({ tokenIds: [...(request.promptIds.length < 40 ? [...Buffer.from("call look")] : [97]), 0] }) },
  )
  const { groups } = await harness.clock.run(train(harness, { steps: 2, groupsPerStep: 1, stepMs: 500 }))
  const [first, second] = groups as [SampleGroup, SampleGroup]
  expect(first.timing).toMatchObject({ toolMs: 300, blockedMs: 0, blockedBy: undefined })
  expect(first.queuedAtMs - first.timing!.generatedAtMs).toBe(70)
  expect(second.timing!.blockedBy).toBe("policy")
  // On-policy: from the start of the first group until the step that it was trained in was over.
  expect(second.timing!.blockedMs).toBe(first.queuedAtMs + 500)
  await harness.clock.run(harness.worker.stop())
})

test("a full queue and full servers are told apart as what holds groups up", async () => {
  const full = createWorkerHarness({ policy: dropPolicy, queueCapacity: 1, maxGroupsInFlight: 2, groupsPerStep: 1 })
  const { groups } = await full.clock.run(train(full, { steps: 6, groupsPerStep: 1, stepMs: 5_000 }))
  expect(groups.at(-1)!.timing).toMatchObject({ blockedBy: "queue" })
  await full.clock.run(full.worker.stop())
  const busy = createWorkerHarness({ policy: dropPolicy, queueCapacity: 50, maxConcurrentRollouts: 3 })
  const { groups: later } = await busy.clock.run(train(busy, { steps: 3, groupsPerStep: 2, stepMs: 1 }))
  expect(later.at(-1)!.timing).toMatchObject({ blockedBy: "servers" })
  await busy.clock.run(busy.worker.stop())
})

test("groups whose last step has passed are cut off and free their places, where that is asked for", async () => {
  const slow = { before: async (_request: unknown, count: number): Promise<void> => {
    if (count === 0) await harness.clock.sleep(9_000)
  } }
  const harness = createWorkerHarness({ policy: dropPolicy, maxStaleness: 0, overdue: "cancel" }, slow)
  await harness.clock.run(train(harness, { steps: 2, groupsPerStep: 2 }))
  expect(harness.of("group.dropped").find(({ occurrence }) => occurrence === 0)).toMatchObject({ reason: "stale", data: { because: "its last step 0 has passed while it was generated" } })
  expect(harness.server.requests[0]!.signal.aborted).toBe(true)
  expect(harness.clock.now()).toBeLessThan(9_000)
  await harness.clock.run(harness.worker.stop())
  expect(harness.givenBack).not.toContain(0)
})

test("named environments: the row chooses; an unknown name stops the worker before anything is generated", async () => {
  const environmentOf = namedEnvironments({ shell: () => ({ reset: () => "$ " }), browser: () => ({ reset: () => "www " }) })
  const rows = (names: readonly (string | undefined)[]): Parameters<typeof createWorkerHarness>[0] => {
    let next = 0
    return { environmentOf, nextPrompt: () => {
      const occurrence = next++
      const environment = names[occurrence]
      return occurrence < names.length ? { occurrence, row: { id: `r${occurrence}`, prompt: "p", ...(environment === undefined ? {} : { environment }) } } : undefined
    } }
  }
  const known = createWorkerHarness(rows(["browser", undefined]))
  const { groups } = await known.clock.run(train(known, { steps: 1, groupsPerStep: 2 }))
  expect(groups).toHaveLength(2)
  expect(known.server.requests.map(({ promptIds }) => String.fromCharCode(...promptIds).includes("www")).toSorted()).toEqual([false, true, true, true])
  await known.clock.run(known.worker.stop())
  const unknown = createWorkerHarness(rows(["phone"]))
  const failure = await unknown.clock.run(train(unknown, { steps: 1, groupsPerStep: 1 }).catch((error: unknown) => error))
  expect(String(failure)).toContain('row r0 asks for environment "phone"')
  expect(String(failure)).toContain("shell, browser")
  expect(unknown.server.requests).toEqual([])
})
