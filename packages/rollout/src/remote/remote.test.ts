import { fork } from "node:child_process"
import { afterEach, describe, expect, test } from "bun:test"
import { CohortError, isCohortError } from "@cohort/errors"
import { type ProgramSettings, serveProgram } from "../../test/rollout-program.ts"
import type { RolloutEvent, SampleGroup } from "../protocol.ts"
import { systemClock } from "../system-clock.ts"
import { countedPrompts } from "../testing/harness.ts"
import { createSimulatedServer } from "../testing/simulated-server.ts"
import type { RolloutWorkerOptions } from "../worker-options.ts"
import { portOfChannel, portToChild, portToThread, type WorkerPort } from "./port.ts"
import { connectRolloutWorker } from "./proxy.ts"

const program = new URL("../../test/rollout-program.ts", import.meta.url)

/** A connection to the program in each of the ways there are. */
const ways: Readonly<Record<string, () => WorkerPort>> = {
  "a thread": () => portToThread(new Worker(program.href)),
  "a message port": () => {
    const { port1, port2 } = new MessageChannel()
    serveProgram(portOfChannel(port2, "the run"))
    return portOfChannel(port1)
  },
  "a child process": () => portToChild(fork(program.pathname, { serialization: "advanced", stdio: ["ignore", "inherit", "inherit", "ipc"] })),
}

const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

function connect(port: WorkerPort, settings: ProgramSettings = {}, overrides: Partial<Pick<RolloutWorkerOptions, "nextPrompt" | "emit" | "server">> = {}) {
  const events: RolloutEvent[] = []
  const givenBack: number[] = []
  const handedOut: number[] = []
  const nextPrompt = overrides.nextPrompt ?? countedPrompts()
  const throttle = { maxAhead: Number.POSITIVE_INFINITY }
  const worker = connectRolloutWorker<ProgramSettings>(port, {
    ...(overrides.server === undefined ? {} : { server: overrides.server }),
    clock: systemClock, settings, throttle, startVersion: 0, stopTimeoutMs: 500, callTimeoutMs: 5_000, log: () => undefined,
    emit: (event) => {
      overrides.emit?.(event)
      events.push(event)
    },
    nextPrompt: async (signal) => {
      const prompt = await nextPrompt(signal)
      if (prompt !== undefined) handedOut.push(prompt.occurrence)
      return prompt
    },
    onGiveBack: (occurrence) => givenBack.push(occurrence),
  })
  stops.push(() => worker.stop())
  const iterator = worker.samples[Symbol.asyncIterator]()
  const take = async (): Promise<SampleGroup> => {
    const next = await iterator.next()
    if (next.done === true) throw new Error("the samples ended")
    return next.value
  }
  const of = (kind: RolloutEvent["kind"]): number[] => events.filter((event) => event.kind === kind).map(({ occurrence }) => occurrence!)
  return { worker, events, givenBack, handedOut, take, of, throttle, iterator }
}

const failure = (promise: Promise<unknown>): Promise<unknown> => promise.then((value) => value, (error: unknown) => (isCohortError(error) ? [error.code, error.message, error.hint] : error))
const until = async (holds: () => boolean): Promise<void> => {
  for (let waited = 0; !holds(); waited++) {
    if (waited > 500) throw new Error("it never came")
    await Bun.sleep(10)
  }
}
const ascending = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b)

describe.each(Object.entries(ways))("over %s", (_, open) => {
  test("groups, events, versions and prompts cross; every occurrence ends once", async () => {
    const { worker, events, givenBack, handedOut, take, of } = connect(open())
    await worker.start()
    const taken: number[] = []
    for (let version = 0; version < 4; version++) {
      for (let member = 0; member < 2; member++) {
        const group = await take()
        taken.push(group.occurrence)
        expect(version - group.oldestVersion).toBeLessThanOrEqual(1)
        for (const { tokenIds, lossMask, behaviorLogProbs, versions } of group.samples) {
          expect(tokenIds).toBeInstanceOf(Int32Array)
          expect(lossMask).toBeInstanceOf(Uint8Array)
          expect([lossMask.length, behaviorLogProbs.length, versions.length]).toEqual(Array.from({ length: 3 }, () => tokenIds.length))
          expect(Math.min(...behaviorLogProbs)).toBeLessThan(0)
        }
      }
      worker.setPolicyVersion(version + 1)
    }
    expect(() => worker.setPolicyVersion(1)).toThrow("versions are integers that never go back")
    const late = await take()
    worker.release(late.occurrence, "too_long")
    expect(() => worker.release(late.occurrence, "too_long")).toThrow("was not taken")
    await until(() => of("group.dropped").includes(late.occurrence))
    expect(worker.status.state).toBe("running")
    await worker.stop()
    expect(worker.status).toMatchObject({ state: "stopped", groupsInFlight: 0, queueDepth: 0 })
    expect(ascending([...taken, ...of("group.dropped"), ...of("group.givenBack")])).toEqual(ascending(of("group.admitted")))
    expect(ascending([...taken, ...of("group.dropped"), ...givenBack])).toEqual(ascending(handedOut))
    // In order: what a group went through came before it was given to the trainer.
    for (const occurrence of taken) expect(events.filter((event) => event.occurrence === occurrence && event.rolloutId === undefined).map(({ kind }) => kind)).toEqual(["group.admitted", "group.completed", "group.queued"])
  }, 20_000)

  test("a group crosses when it is asked for; what waits there is told", async () => {
    const { worker, take, of } = connect(open(), { maxStaleness: 4, queueCapacity: 3 })
    await worker.start()
    await until(() => of("group.queued").length === 10 && worker.status.queueDepth === 10 && worker.queued.length === 30)
    expect(worker.queued.every(({ oldestVersion, trainedTokens }) => oldestVersion === 0 && trainedTokens > 0)).toBe(true)
    await take()
    await until(() => worker.status.queueDepth === 9)
  }, 20_000)

  test("what fails there fails here with its code, its words and its hint", async () => {
    const { worker } = connect(open(), { refuse: "there is no vocabulary" })
    expect(await failure(worker.start())).toEqual(["tokenizer_invalid", "there is no vocabulary", "Take another."])
  }, 20_000)
})

test("pause starts nothing, resume goes on; the throttle crosses", async () => {
  const { worker, take, of, throttle } = connect(ways["a thread"]!(), { maxStaleness: 4 })
  await worker.start()
  await until(() => of("group.queued").length === 10)
  await worker.pause()
  const before = of("group.admitted").length
  await take()
  await Bun.sleep(50)
  expect(of("group.admitted").length).toBe(before)
  throttle.maxAhead = 3
  worker.setPolicyVersion(1)
  await worker.resume()
  await Bun.sleep(50)
  // Nine are still ahead, and three may be.
  expect(of("group.admitted").length).toBe(before)
  throttle.maxAhead = 100
  worker.setPolicyVersion(2)
  await until(() => of("group.admitted").length > before)
}, 20_000)

describe("servers that the run lends", () => {
  test("generate for the other side, and are told when nobody waits any more", async () => {
    const aborted: unknown[] = []
    const simulated = createSimulatedServer({ clock: systemClock, seed: 3, tokenMs: 1, before: ({ signal }, count) => {
      if (count !== 3) return undefined
      signal.addEventListener("abort", () => aborted.push(count))
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
    } })
    const { worker, take } = connect(ways["a thread"]!(), { borrows: true, maxStaleness: 4 }, { server: simulated })
    await worker.start()
    const group = await take()
    expect(group.samples).toHaveLength(3)
    expect(simulated.requests[0]).toMatchObject({ n: 3, promptIds: expect.any(Int32Array) })
    await until(() => simulated.requests.length > 3)
    await worker.stop()
    expect(aborted).toEqual([3])
    await until(() => simulated.running === 0)
  }, 20_000)

  test("fail the group with their own reason; a run that lends none says so", async () => {
    const refusing = { generate: () => Promise.reject(new CohortError("inference_rejected", "the prompt is too long")) }
    const { worker, events, take } = connect(ways["a message port"]!(), { borrows: true }, { server: refusing })
    await worker.start()
    expect(await failure(take())).toEqual(["inference_rejected", expect.stringContaining("the prompt is too long"), expect.any(String)])
    expect(events.filter(({ kind }) => kind === "rollout.failed").every(({ reason }) => reason === "inference_rejected")).toBe(true)
    const none = connect(ways["a message port"]!(), { borrows: true })
    await none.worker.start()
    expect(await failure(none.take())).toEqual([expect.any(String), expect.stringContaining("this run lends no servers"), expect.any(String)])
  }, 30_000)
})

describe("when the other side ends", () => {
  for (const [way, happens, why] of [
    ["a thread", "exit", "the rollout thread is gone: it ended with code 7"],
    ["a thread", "throwLater", "a plugin threw outside of its call"],
    ["a child process", "exit", "the rollout process is gone: it ended with code 7"],
  ] as const)
    test(`${way}, ${happens}: the samples throw worker_failed, everything goes back`, async () => {
      const { worker, events, givenBack, handedOut, take, of } = connect(ways[way]!(), { maxStaleness: 8, at: 6, happens })
      await worker.start()
      const taken: number[] = []
      const error = await failure((async () => { for (;;) taken.push((await take()).occurrence) })())
      expect(error).toEqual(["worker_failed", expect.stringContaining(why), expect.stringContaining("can be resumed")])
      expect(await failure(take())).toEqual(error)
      expect(await failure(worker.pause())).toEqual(error)
      expect(worker.status).toMatchObject({ state: "failed", lastError: expect.stringContaining(why) })
      expect(events.filter(({ kind, data }) => kind === "worker.state" && data?.state === "failed")).toHaveLength(1)
      expect(ascending([...taken, ...givenBack])).toEqual(ascending(handedOut))
      expect(ascending([...taken, ...of("group.givenBack")])).toEqual(ascending(of("group.admitted")))
      await worker.stop()
      expect(new Set(givenBack).size).toBe(givenBack.length)
    }, 20_000)

  test("one that is stuck goes silent, and stopping it is bounded", async () => {
    const { worker, givenBack, handedOut } = connect(ways["a thread"]!(), { at: 1, happens: "block" })
    await worker.start()
    await until(() => systemClock.now() - worker.status.heartbeatAtMs > 200)
    await worker.stop()
    expect(ascending(givenBack)).toEqual(ascending(handedOut))
  }, 30_000)
})

test("a ledger that refuses an event ends the worker with that cause, and the account still closes", async () => {
  let emitted = 0
  const { worker, take, givenBack, handedOut } = connect(ways["a message port"]!(), {}, { emit: () => { if (++emitted === 12) throw new Error("the disk is full") } })
  await worker.start().catch(() => undefined)
  expect(await failure((async () => { for (;;) await take() })())).toEqual(["worker_failed", "the disk is full", undefined])
  await worker.stop()
  expect(givenBack.every((occurrence) => handedOut.includes(occurrence))).toBe(true)
}, 20_000)

test("a source of prompts that throws fails the worker with its words; the end of the data ends the samples", async () => {
  const broken = connect(ways["a message port"]!(), {}, { nextPrompt: () => { throw new Error("row 3 is no JSON") } })
  await broken.worker.start()
  expect(await failure(broken.take())).toEqual([expect.any(String), expect.stringContaining("row 3 is no JSON"), undefined])
  const short = connect(ways["a message port"]!(), {}, { nextPrompt: countedPrompts(2) })
  await short.worker.start()
  await short.take()
  await short.take()
  expect(await short.iterator.next()).toEqual({ done: true, value: undefined })
}, 20_000)
