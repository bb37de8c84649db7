import { describe, expect, test } from "bun:test"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import type { EnvironmentFactory } from "@cohort/env"
import { createRolloutWorker, type RewardEntry, type RolloutEvent, type RolloutWorkerOptions, type SampleGroup } from "@cohort/rollout"
import { type Completion, countedPrompts, createSimulatedServer, createVirtualClock, idsOf, plainTokenizer, stopTokenId } from "@cohort/rollout/testing"
import { episodeServices } from "./tasks.ts"
import { workerOptions } from "./worker-options.ts"

const modelFolder = new URL("../../../models/arithmetic-1m", import.meta.url).pathname

interface World {
  readonly environment?: EnvironmentFactory
  readonly reward?: (tokens: number) => number
  readonly complete?: (turn: number, index: number) => string
  /** Ms per token of a request, counted from 0. */
  readonly slow?: (request: number) => number
}

/** The worker of a config over a simulated server: everything between the config and the worker is the run's own code. */
function runOf(settings: Pick<RunConfigInput, "rollout" | "staleness" | "train">, world: World = {}) {
  const config = resolveConfig({
    model: { path: "m" }, data: { source: "d" }, ...settings,
    rollout: { groupSize: 2, ...settings.rollout }, train: { completionsPerStep: 2, ...settings.train },
  })
  const clock = createVirtualClock()
  const complete = world.complete ?? ((turn, index) => "a".repeat(1 + index + turn))
  const server = createSimulatedServer({
    clock, seed: 1,
    complete: (request, index): Completion => ({ tokenIds: [...idsOf(complete(turnsIn(request.promptIds), index)), stopTokenId] }),
    before: async (_, count) => clock.sleep(world.slow?.(count) ?? 0),
  })
  const services = { ...episodeServices(config, modelFolder, server, 4096, () => undefined), clock, tokenizer: plainTokenizer }
  const events: RolloutEvent[] = []
  const reward: RewardEntry = { name: "length", weight: 1, timeoutMs: 1_000, maxAttempts: 1, reward: ({ completionIds }) => world.reward?.(completionIds.length) ?? completionIds.length }
  const options: RolloutWorkerOptions = workerOptions(config, {
    services, tasks: { environmentOf: () => world.environment }, rewards: [reward], slots: 16, startVersion: 0, throttle: { maxAhead: Number.POSITIVE_INFINITY },
    emit: (event) => events.push(event), nextPrompt: countedPrompts(40), onGiveBack: () => undefined,
  })
  const worker = createRolloutWorker(options)
  const iterator = worker.samples[Symbol.asyncIterator]()
  const take = async (): Promise<SampleGroup> => {
    const next = await clock.run(iterator.next())
    if (next.done === true) throw new Error("no group")
    return next.value
  }
  return { clock, server, worker, options, events, take, ends: () => events.filter(({ kind }) => kind === "rollout.generated").map(({ data }) => data?.endedBy) }
}

/** Assistant turns that a prompt holds: how often the model spoke before. */
function turnsIn(promptIds: Int32Array): number {
  return String.fromCharCode(...promptIds).split("<assistant>").length - 2
}

const withTool: EnvironmentFactory = () => ({ reset: () => undefined, tools: { look: { description: "looks", run: () => "seen" } } })

describe("rollout", () => {
  test("maxToolRounds ends a rollout after so many rounds of tools", async () => {
    const world: World = { environment: withTool, complete: () => "call look {}" }
    const bounded = runOf({ rollout: { maxToolRounds: 1 } }, world)
    await bounded.worker.start()
    const [sample] = (await bounded.take()).samples
    expect(bounded.ends().slice(0, 2)).toEqual(["toolRounds", "toolRounds"])
    expect(String.fromCharCode(...sample!.tokenIds).split("<tool>").length - 1).toBe(1)
    await bounded.clock.run(bounded.worker.stop())
    const none = runOf({ rollout: { maxToolRounds: 0 } }, world)
    await none.worker.start()
    expect(String.fromCharCode(...(await none.take()).samples[0]!.tokenIds)).not.toContain("<tool>")
    await none.clock.run(none.worker.stop())
  })

  test("maxTurns ends one that tools would keep alive", async () => {
    const run = runOf({ rollout: { maxTurns: 3 } }, { environment: withTool, complete: () => "call look {}" })
    await run.worker.start()
    await run.take()
    expect(run.ends().slice(0, 2)).toEqual(["turns", "turns"])
    expect(run.events.find(({ kind }) => kind === "rollout.generated")?.data?.turns).toBe(3)
    await run.clock.run(run.worker.stop())
  })

  test("maxEpisodeTokens bounds what the model writes over all turns", async () => {
    const run = runOf({ rollout: { maxEpisodeTokens: 20 } }, { environment: withTool, complete: () => "call look {}" })
    await run.worker.start()
    await run.take()
    const generated = run.events.filter(({ kind }) => kind === "rollout.generated")
    expect(generated[0]?.data).toMatchObject({ tokens: 20, turns: 2 })
    await run.clock.run(run.worker.stop())
  })

  test("turnTokens keeps what was generated, or renders it anew", async () => {
    // The template writes the arguments of a call without this blank.
    const world: World = { environment: withTool, complete: (turn) => (turn === 0 ? 'call look {"a": 1}' : "done") }
    for (const [turnTokens, text] of [["keep", '{"a": 1}'], ["render", '{"a":1}']] as const) {
      const run = runOf({ rollout: { turnTokens, forkThresholdTokens: 64 } }, world)
      await run.worker.start()
      await run.take()
      const second = run.server.requests.find(({ promptIds }) => turnsIn(promptIds) === 1)
      expect(String.fromCharCode(...second!.promptIds)).toContain(text)
      await run.clock.run(run.worker.stop())
    }
  })

  test("dynamicSampling replaces groups without spread, as often as maxReplacedGroups between two steps", async () => {
    const same: World = { reward: () => 1 }
    const kept = runOf({}, same)
    await kept.worker.start()
    expect((await kept.take()).rewardSpread).toBe(0)
    await kept.clock.run(kept.worker.stop())

    const mixed = runOf({ rollout: { dynamicSampling: true } }, { complete: (_, index) => "b".repeat(1 + index), reward: (() => { let calls = 0; return () => (calls++ < 10 ? 1 : calls % 2) })() })
    await mixed.worker.start()
    expect((await mixed.take()).rewardSpread).toBeGreaterThan(0)
    expect(mixed.events.filter(({ kind, reason }) => kind === "group.dropped" && reason === "zero_spread").length).toBeGreaterThanOrEqual(5)
    await mixed.clock.run(mixed.worker.stop())

    const capped = runOf({ rollout: { dynamicSampling: true, maxReplacedGroups: 3 } }, same)
    await capped.worker.start()
    await expect(capped.take()).rejects.toThrow("4 groups without spread were replaced since the last step; 3 may be")
    expect(capped.events.filter(({ kind, reason }) => kind === "group.dropped" && reason === "zero_spread")).toHaveLength(4)
    await capped.clock.run(capped.worker.stop())
    expect(runOf({ staleness: { maxSteps: 1 }, train: { completionsPerStep: 4 } }).options.maxReplacedPerStep).toBe(40)
  })
})

test("rollout.oversampling starts more groups than a step trains, and may have as many ahead", async () => {
  for (const [oversampling, started] of [[1, 2], [1.5, 3], [2, 4]] as const) {
    const run = runOf({ rollout: { oversampling }, staleness: { maxSteps: 0 }, train: { completionsPerStep: 4 } })
    await run.worker.start()
    await run.clock.advance(1)
    expect([run.worker.status.groupsInFlight, run.options.queueCapacity]).toEqual([started, started])
    await run.take()
    await run.take()
    run.server.setVersion(1)
    run.worker.setPolicyVersion(1)
    await run.take()
    expect(run.events.filter(({ kind, reason }) => kind === "group.dropped" && reason === "surplus")).toHaveLength(started - 2)
    await run.clock.run(run.worker.stop())
  }
})

describe("staleness", () => {
  test("policy: pace starts what can be trained in time, the others what the servers take", async () => {
    for (const policy of ["pace", "drop", "downWeight", "mask"] as const) {
      const run = runOf({ staleness: { maxSteps: 1, policy } })
      await run.worker.start()
      await run.clock.advance(1)
      expect([policy, run.worker.status.groupsInFlight]).toEqual([policy, policy === "pace" ? 2 : 16])
      await run.clock.run(run.worker.stop())
    }
  })

  test("policy: what is above the bound is dropped, weighs less, or has its older tokens masked", async () => {
    const seen: Record<string, readonly [number, number]> = {}
    for (const policy of ["drop", "downWeight", "mask"] as const) {
      // Six of the nine tokens of each completion are of version 0.
      const run = runOf({ staleness: { maxSteps: 0, policy }, rollout: { queueGroups: 4, maxInflightGroups: 4 } }, { complete: () => "abcdefgh" })
      await run.worker.start()
      await run.clock.advance(50)
      run.server.setVersion(1)
      await run.clock.advance(200)
      run.worker.setPolicyVersion(1)
      const group = await run.take()
      seen[policy] = [group.samples[0]!.weight, group.trainedTokens]
      await run.clock.run(run.worker.stop())
    }
    expect(seen).toEqual({ drop: [1, 18], downWeight: [0.5, 18], mask: [1, 6] })
  })

  test("overdue: rollouts in flight whose last step has passed go on, or are cut off", async () => {
    for (const [overdue, dropped] of [["continue", 0], ["cancel", 1]] as const) {
      const run = runOf({ staleness: { maxSteps: 0, policy: "drop", overdue }, rollout: { maxInflightGroups: 2 } }, { slow: (request) => (request === 0 ? 60_000 : 0) })
      await run.worker.start()
      await run.take()
      run.worker.setPolicyVersion(1)
      await run.clock.advance(1)
      expect(run.events.filter(({ kind, reason, occurrence }) => kind === "group.dropped" && reason === "stale" && occurrence === 0)).toHaveLength(dropped)
      await run.clock.run(run.worker.stop())
    }
  })
})
