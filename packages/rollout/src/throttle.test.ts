import { expect, test } from "bun:test"
import type { PipelineState } from "./protocol.ts"
import { dropPolicy, pacedPolicy } from "./staleness.ts"
import { throttled } from "./throttle.ts"

const state: PipelineState = { version: 3, maxStaleness: 3, groupsPerStep: 4, stepsPerSync: 1, groupsInFlight: 3, groupsQueued: 2, groupsTaken: 1 }

test("bounds the groups ahead, never below one step's", () => {
  const throttle = { maxAhead: Number.POSITIVE_INFINITY }
  const policy = throttled(pacedPolicy, throttle)
  expect(policy.capacity(state)).toEqual(pacedPolicy.capacity(state))
  throttle.maxAhead = 8
  expect(policy.capacity(state)).toEqual({ groups: 2, because: "throttled to 8 groups ahead of the trainer; 6 are" })
  throttle.maxAhead = 0
  expect(policy.capacity({ ...state, groupsInFlight: 0, groupsQueued: 0 }).groups).toBe(3)
  expect(policy.capacity(state).groups).toBe(0)
  expect(throttled(dropPolicy, { maxAhead: 7 }).capacity(state).groups).toBe(1)
  expect(policy.waitsForOldest).toBe(true)
})
