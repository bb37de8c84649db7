import { expect, test } from "bun:test"
import fc from "fast-check"
import { maskedBelow } from "./group-samples.ts"
import type { PipelineState, SampleGroup } from "./protocol.ts"
import { checkStaleness, deadlineOf, downWeightPolicy, dropPolicy, maskPolicy, mustWait, pacedPolicy } from "./staleness.ts"

const state = (over: Partial<PipelineState> = {}): PipelineState => ({
  version: 8, maxStaleness: 4, groupsPerStep: 2, stepsPerSync: 1, groupsInFlight: 0, groupsQueued: 0, groupsTaken: 0, ...over,
})
const group = (oldestVersion: number): SampleGroup => ({
  id: "g0", occurrence: 0, row: { id: "r", prompt: "p" }, samples: [], rewards: [], rolloutIds: [], memberParts: [], rewardMean: 0, rewardParts: {}, rewardSpread: 0, oldestVersion,
  trainedTokens: 0, completionTokens: 0, truncatedShare: 0, startedAtMs: 0, queuedAtMs: 0,
})

test("limit 4 at version 8: 3 is dropped, 4 and 8 are trained, 9 and none are refused as invalid", () => {
  for (const policy of [pacedPolicy, dropPolicy]) {
    const actions = [3, 4, 8, 9, -1, Number.NaN].map((version) => policy.decide(group(version), state()))
    expect(actions.map(({ action }) => action)).toEqual(["drop", "train", "train", "drop", "drop", "drop"])
    expect(actions[0]!.because).toBe("age 5 is above the bound of 4")
    expect(actions[3]!.because).toContain("newer than 8")
    expect(actions[4]!.because).toContain("not a policy version")
  }
})

test("paced capacity counts what is in flight, queued and taken, and says so", () => {
  expect(pacedPolicy.capacity(state()).groups).toBe(10)
  expect(pacedPolicy.capacity(state({ groupsInFlight: 5, groupsQueued: 3, groupsTaken: 1 }))).toEqual({
    groups: 1,
    because: "version 8 allows 10 groups (max staleness 4, 2 per step); 9 are ahead",
  })
  expect(pacedPolicy.capacity(state({ groupsInFlight: 99 })).groups).toBe(0)
  expect(pacedPolicy.capacity(state({ maxStaleness: 0 })).groups).toBe(2)
})

test("between syncs the servers' weights are already old: fewer groups may start, never none", () => {
  const groups = [8, 9, 10, 11].map((version) => pacedPolicy.capacity(state({ version, stepsPerSync: 4, maxStaleness: 3 })).groups)
  expect(groups).toEqual([8, 6, 4, 2])
  expect(deadlineOf(state({ version: 10, stepsPerSync: 4, maxStaleness: 3 }))).toBe(11)
})

test("down-weighting: 1 within the bound, then a power of the factor, then dropped", () => {
  const policy = downWeightPolicy({ factor: 0.5, minWeight: 0.25 })
  const decide = (version: number) => policy.decide(group(version), state({ maxStaleness: 1 }))
  expect([8, 7, 6, 5].map((version) => decide(version).weight)).toEqual([1, 1, 0.5, 0.25])
  expect(decide(4).action).toBe("drop")
  expect(decide(9).action).toBe("drop")
  expect(() => downWeightPolicy({ factor: 1 })).toThrow("factor is 1")
})

test("the trainer waits when taking a newer group would crowd out an older one in flight", () => {
  // One group per step at version 1: two groups in flight must be trained by step 2, so a group due at 3 has no place before them.
  const one = state({ version: 1, groupsPerStep: 1 })
  expect(mustWait(3, [2, 2], one)).toBe(true)
  expect(mustWait(3, [2], one)).toBe(false)
  expect(mustWait(2, [2, 2], one)).toBe(false)
  expect(mustWait(3, [1], one)).toBe(true)
  // Two places in this step: the newer one may go first, unless one place is gone.
  expect(mustWait(3, [1], state({ version: 1 }))).toBe(false)
  expect(mustWait(3, [1], state({ version: 1, groupsTaken: 1 }))).toBe(true)
})

test("waiting exactly when counting says so: taking keeps every earlier deadline feasible", () => {
  const deadlines = fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 10 })
  fc.assert(
    fc.property(deadlines, fc.integer({ min: 0, max: 6 }), fc.integer({ min: 1, max: 3 }), fc.integer({ min: 0, max: 2 }), (inFlight, candidate, groupsPerStep, taken) => {
      const groupsTaken = Math.min(taken, groupsPerStep - 1)
      // Greedy: the candidate takes a place of step 0, then earliest deadline first.
      const late = inFlight.filter((deadline) => deadline < candidate).toSorted((a, b) => a - b)
        .some((deadline, index) => Math.floor((groupsTaken + 1 + index) / groupsPerStep) > deadline)
      expect(mustWait(candidate, inFlight, state({ version: 0, groupsPerStep, groupsTaken }))).toBe(late)
    }),
    { seed: 4, numRuns: 500 },
  )
})

test("a bound that pushes cannot keep is refused with the way out", () => {
  expect(() => checkStaleness({ maxStaleness: 1, stepsPerSync: 4, groupsPerStep: 2 })).toThrow("up to 3 steps old")
  expect(() => checkStaleness({ maxStaleness: 3, stepsPerSync: 4, groupsPerStep: 2 })).not.toThrow()
  expect(() => checkStaleness({ maxStaleness: -1, stepsPerSync: 1, groupsPerStep: 2 })).toThrow("maxStaleness is -1")
  expect(() => checkStaleness({ maxStaleness: 0, stepsPerSync: 1, groupsPerStep: 0 })).toThrow("groupsPerStep is 0")
})

test("masking: tokens within the bound are trained, older ones are context; nothing left is a drop", () => {
  const sample = (versions: number[]): SampleGroup["samples"][number] => ({
    id: "s", groupId: "g0", rolloutId: "r", tokenIds: Int32Array.from(versions, (_, i) => i), lossMask: Uint8Array.from(versions, (version) => (version < 0 ? 0 : 1)),
    behaviorLogProbs: Float32Array.from(versions, (version) => (version < 0 ? 0 : -0.5)), versions: Int32Array.from(versions), advantage: 1, weight: 1, truncated: false,
  })
  const old: SampleGroup = { ...group(3), samples: [sample([-1, 3, 3, 6]), sample([-1, 3, 3, 3])], trainedTokens: 6 }
  const at = state({ version: 8, maxStaleness: 2 })
  const decision = maskPolicy.decide(old, at)
  expect(decision).toMatchObject({ action: "train", weight: 1, maskBelowVersion: 6 })
  expect(decision.because).toBe("age 5 is above the bound of 2: 1 of 6 tokens are within it")
  const masked = maskedBelow(old, 6)
  expect(masked).toMatchObject({ oldestVersion: 6, trainedTokens: 1 })
  expect(masked.samples.map(({ lossMask }) => lossMask.join(""))).toEqual(["0001"])
  expect([...masked.samples[0]!.versions]).toEqual([-1, -1, -1, 6])
  expect([...masked.samples[0]!.behaviorLogProbs]).toEqual([0, 0, 0, -0.5])
  expect(maskPolicy.decide({ ...old, samples: [sample([-1, 3])] }, at).action).toBe("drop")
  expect(maskPolicy.decide(group(7), at)).not.toHaveProperty("maskBelowVersion")
})
