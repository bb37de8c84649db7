import { expect, test } from "bun:test"
import fc from "fast-check"
import { activeMembers, admitGroup, type GroupAction, type GroupState, reduceGroup, waitingMembers } from "./group-state.ts"

const rules = { maxAttempts: 2, minMembers: 2 }
const play = (actions: readonly GroupAction[], size = 3): GroupState => actions.reduce((state, action) => reduceGroup(state, action, rules), admitGroup("g0", 0, size))
const generate = (member: number): GroupAction => ({ type: "generate", member })
const generated = (member: number): GroupAction => ({ type: "generated", member })
const scored = (member: number): GroupAction => ({ type: "scored", member })
const failed = (member: number, retryable = false, reason: "inference_failed" | "reward_failed" | "generation_invalid" = "inference_failed"): GroupAction => ({ type: "failed", member, reason, error: `${reason} ${member}`, retryable })
const all = (make: (member: number) => GroupAction, size = 3): GroupAction[] => Array.from({ length: size }, (_, member) => make(member))

test("the way of a group", () => {
  expect(play([generate(0)]).phase).toBe("generating")
  expect(play(all(generate)).phase).toBe("generating")
  expect(activeMembers(play(all(generate)))).toBe(3)
  const scoring = [...all(generate), ...all(generated)]
  expect(play(scoring).phase).toBe("scoring")
  expect(activeMembers(play(scoring))).toBe(0)
  const complete = [...scoring, ...all(scored)]
  expect(play(complete).phase).toBe("complete")
  expect(play([...complete, { type: "queue" }, { type: "take" }, { type: "train" }]).phase).toBe("trained")
})

test("a retryable failure waits for its next attempt, the last one leaves the group smaller", () => {
  const once = play([generate(0), failed(0, true)])
  expect(waitingMembers(once)).toEqual([0, 1, 2])
  const twice = play([...all(generate), failed(0, true), generate(0), failed(0, true)])
  expect(twice.members[0]).toEqual({ status: "failed", attempts: 2, reason: "inference_failed", error: "inference_failed 0" })
  expect(twice.phase).toBe("generating")
  expect(play([...all(generate), failed(0), generated(1), generated(2)]).phase).toBe("scoring")
})

test("below two members the group is dropped at once, with the most frequent reason", () => {
  const dropped = play([...all(generate, 4), failed(0, false, "generation_invalid"), failed(1), failed(2)], 4)
  expect(dropped).toMatchObject({ phase: "dropped", reason: "inference_failed", error: "inference_failed 1" })
  const unscored = play([...all(generate), ...all(generated), failed(0, true, "reward_failed"), scored(1), failed(2, false, "reward_failed")])
  expect(unscored).toMatchObject({ phase: "dropped", reason: "reward_failed" })
})

test("what a state does not allow is refused by name", () => {
  expect(() => play([generated(0)])).toThrow('"generated" of member 0 (waiting) is not allowed')
  expect(() => play([generate(7)])).toThrow("member 7 (absent)")
  expect(() => play([{ type: "queue" }])).toThrow('group g0 is admitted: "queue" is not allowed')
  expect(() => play([{ type: "drop", reason: "stale" }, { type: "giveBack" }])).toThrow("dropped")
})

test("any sequence of allowed actions ends in one final state and never leaves it", () => {
  const action = fc.oneof(
    fc.nat(2).map(generate), fc.nat(2).map(generated), fc.nat(2).map(scored), fc.tuple(fc.nat(2), fc.boolean()).map(([member, again]) => failed(member, again)),
    fc.constantFrom<GroupAction>({ type: "queue" }, { type: "take" }, { type: "train" }, { type: "drop", reason: "stale" }, { type: "giveBack" }),
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      let state = admitGroup("g0", 0, 3)
      let final: string | undefined
      for (const next of actions) {
        try {
          state = reduceGroup(state, next, rules)
        } catch {
          continue
        }
        expect(final).toBeUndefined()
        if (["trained", "dropped", "givenBack"].includes(state.phase)) final = state.phase
        if (["complete", "queued", "taken", "trained"].includes(state.phase)) expect(state.members.filter(({ status }) => status === "scored").length).toBeGreaterThanOrEqual(2)
      }
    }),
    { seed: 8, numRuns: 300 },
  )
})
