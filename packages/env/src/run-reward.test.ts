import { describe, expect, test } from "bun:test"
import type { RewardContext, RewardLike, ScoredRollout } from "./reward.ts"
import { runReward, toReward } from "./run-reward.ts"

function group(size: number): ScoredRollout[] {
  return Array.from({ length: size }, (_, index) => ({
    row: { id: `row-${index}`, prompt: "p" },
    prompt: "p",
    completion: [{ role: "assistant", content: String(index) }],
    text: String(index),
    completionIds: Int32Array.of(index),
    turns: 1,
    finishReason: "stop",
  }))
}

const context = (signal: AbortSignal = new AbortController().signal): RewardContext => ({ signal, log: () => {}, policyVersion: 0 })
const run = (reward: RewardLike, size: number, signal?: AbortSignal) => runReward(reward, group(size), context(signal), "mine")

describe("toReward", () => {
  test("takes functions and objects, refuses the rest by name", () => {
    expect(typeof toReward(() => 1).score).toBe("function")
    const object = { scoreGroup: () => [1] }
    expect(toReward(object)).toBe(object)
    expect(() => toReward({} as RewardLike)).toThrow("score or scoreGroup, got {} (object)")
    expect(() => toReward("reward-math" as unknown as RewardLike)).toThrow('got "reward-math" (string)')
  })

  test("keeps `this` of an object with state", async () => {
    class Counting {
      calls = 0
      score() {
        this.calls += 1
        return this.calls
      }
    }
    expect(await run(new Counting(), 2)).toEqual([{ kind: "ok", value: 1 }, { kind: "ok", value: 2 }])
  })
})

describe("runReward", () => {
  test("a reward that throws fails its own rollout only", async () => {
    const results = await run((rollout) => {
      if (rollout.text === "2") throw new Error("bad row")
      return 1
    }, 8)
    expect(results.map((result) => result.kind)).toEqual(["ok", "ok", "failed", "ok", "ok", "ok", "ok", "ok"])
    expect(results[2]).toEqual({ kind: "failed", error: "mine: threw bad row", retryable: true })
  })

  test("rejections, thrown strings and thrown objects without text are failures", async () => {
    expect(await run(() => Promise.reject(new Error("no judge")), 1)).toEqual([{ kind: "failed", error: "mine: threw no judge", retryable: true }])
    expect(await run(() => { throw "plain" }, 1)).toMatchObject([{ error: "mine: threw plain" }])
    expect(await run(() => { throw Object.create(null) }, 1)).toMatchObject([{ kind: "failed" }])
  })

  test("null does not become zero", async () => {
    expect(await run((rollout) => (rollout.text === "0" ? null : 0.5), 2)).toEqual([{ kind: "notApplicable" }, { kind: "ok", value: 0.5 }])
  })

  test.each([
    [[1], "returned 1 values for 8 rollouts"],
    [[1, 1, 1], "returned 3 values for 8 rollouts"],
    [[], "returned 0 values for 8 rollouts"],
    [Array.from({ length: 9 }, () => 1), "returned 9 values for 8 rollouts"],
    [1, "returned 1; expected an array of 8"],
    [{ scores: [] }, 'returned {"scores":[]} (object); expected an array of 8'],
  ])("a group reward returning %p fails all, with name and counts", async (returned, text) => {
    const results = await run({ scoreGroup: () => returned as number[] }, 8)
    expect(results).toHaveLength(8)
    for (const result of results) {
      expect(result).toMatchObject({ kind: "failed", retryable: false })
      expect(result.kind === "failed" && result.error).toContain("mine: ")
      expect(result.kind === "failed" && result.error).toContain(text)
    }
  })

  test("holes of a sparse group answer fail, the rest counts", async () => {
    const sparse = [1, 2, 3]
    delete sparse[1]
    expect((await run({ scoreGroup: () => sparse }, 3)).map((result) => result.kind)).toEqual(["ok", "failed", "ok"])
  })

  test("at the deadline, scores that are there are kept and the missing ones are retryable failures", async () => {
    const stop = new AbortController()
    const pending = run((rollout) => (rollout.text === "1" ? new Promise<number>(() => {}) : 1), 3, stop.signal)
    await Bun.sleep(1)
    stop.abort(new DOMException("2 s are over", "TimeoutError"))
    expect(await pending).toEqual([
      { kind: "ok", value: 1 },
      { kind: "failed", error: "mine: gave no result before its deadline", retryable: true },
      { kind: "ok", value: 1 },
    ])
  })

  test("a stopped run is not retried, and a reward is not called after the stop", async () => {
    let calls = 0
    const results = await run(() => (calls += 1), 2, AbortSignal.abort(new Error("run stops")))
    expect(results).toMatchObject([{ error: "mine: was stopped: run stops", retryable: false }, { kind: "failed" }])
    expect(calls).toBe(0)
  })

  test("no rollouts, no call", async () => {
    expect(await run({ scoreGroup: () => { throw new Error("called") } }, 0)).toEqual([])
  })
})
