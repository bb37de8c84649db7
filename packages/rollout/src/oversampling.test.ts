import { expect, test } from "bun:test"
import { createDropCounter } from "./drop-counter.ts"
import { oversampled } from "./oversampling.ts"
import { pacedPolicy } from "./staleness.ts"
import { createWorkerHarness } from "./testing/harness.ts"

const state = { version: 4, maxStaleness: 1, groupsPerStep: 2, stepsPerSync: 1, groupsInFlight: 0, groupsQueued: 0, groupsTaken: 0 }

test("more groups may be ahead, in whole groups; a factor of 1 changes nothing, one below is refused", () => {
  expect(oversampled(pacedPolicy, 1)).toBe(pacedPolicy)
  expect(pacedPolicy.capacity(state).groups).toBe(4)
  expect(oversampled(pacedPolicy, 1.2).capacity(state).groups).toBe(6)
  expect(oversampled(pacedPolicy, 2).capacity(state).groups).toBe(8)
  for (const factor of [0.9, Number.NaN, Number.POSITIVE_INFINITY]) expect(() => oversampled(pacedPolicy, factor)).toThrow("at least 1")
})

test("the first to finish are trained, the rest is cut off as surplus and counted; steps do not wait for slow prompts", async () => {
  const drops = createDropCounter()
  const steps = 6
  const isSlow = (occurrence: number): boolean => occurrence % 4 === 0
  const run = async (factor: number): Promise<{ readonly ms: number; readonly taken: number[]; readonly surplus: number }> => {
    const harness = createWorkerHarness(
      { maxStaleness: 0, policy: oversampled(pacedPolicy, factor), emit: (event) => drops.event(event), maxConsecutiveFailures: 1, maxConsecutiveFiltered: 1 },
      { before: ({ promptIds, signal }) => harness.clock.sleep(isSlow(Number(String.fromCharCode(...promptIds).split(" ")[1])) ? 5_000 : 0, signal) },
    )
    const { clock, worker, server } = harness
    const iterator = worker.samples[Symbol.asyncIterator]()
    const taken: number[] = []
    await worker.start()
    for (let version = 0; version < steps; version++) {
      for (let group = 0; group < 2; group++) {
        const next = await clock.run(iterator.next())
        taken.push(next.value.occurrence)
      }
      // What is cut off frees its place on the servers at once.
      server.setVersion(version + 1)
      worker.setPolicyVersion(version + 1)
      if (factor > 1) expect(harness.of("group.dropped").filter(({ reason }) => reason !== "surplus")).toEqual([])
    }
    const ms = clock.now()
    await clock.run(worker.stop())
    const ended = [...taken, ...harness.of("group.dropped").map(({ occurrence }) => occurrence!), ...harness.of("group.givenBack").map(({ occurrence }) => occurrence!)]
    expect(ended.toSorted((a, b) => a - b)).toEqual(harness.of("group.admitted").map(({ occurrence }) => occurrence!))
    expect([server.running, clock.pending]).toEqual([0, 0])
    return { ms, taken, surplus: drops.take().groups.surplus ?? 0 }
  }
  const paced = await run(1)
  expect(paced.surplus).toBe(0)
  expect(paced.taken.filter(isSlow)).toHaveLength(3)
  const more = await run(2)
  expect(more.taken.filter(isSlow)).toEqual([])
  expect(more.surplus).toBe(steps * 2)
  expect(more.ms).toBeLessThan(paced.ms / 10)
})

test("counts since the last look, groups and rollouts apart", () => {
  const drops = createDropCounter()
  for (const event of [{ kind: "group.dropped", reason: "stale" }, { kind: "group.dropped", reason: "stale" }, { kind: "rollout.failed", reason: "reward_failed" }, { kind: "group.queued" }] as const) drops.event(event)
  expect(drops.take()).toEqual({ groups: { stale: 2 }, rollouts: { reward_failed: 1 } })
  expect(drops.take()).toEqual({ groups: {}, rollouts: {} })
})
