// Inference servers of the simulation: requests take heavy-tailed time, weights change in their middle, engines die and come back.
import { CohortError } from "@cohort/errors"
import type { GenerateRequest, Generation, PauseMode, VersionSpan } from "@cohort/inference"
import { type Clock, type Random, seededRandom, seedOf, timerOver } from "@cohort/rollout"
import { heavyTail, maxTokens, type Scenario, slowFactor } from "./scenario.ts"
import { generatedId, logProbOfId, promptText, type TokenKind } from "./tokens.ts"

/** A request that is being generated. Times are of generation: they stand still while the engine is paused. */
interface Flight {
  readonly lengths: readonly number[]
  /** Completions of this length were cut. */
  readonly limit: number
  readonly tokenMs: number
  readonly needMs: number
  /** Versions by the time from which they generate. */
  readonly versions: { readonly fromMs: number; readonly version: number }[]
  doneMs: number
  startedAtMs: number
  timer: AbortController | undefined
  readonly end: PromiseWithResolvers<"finished" | "aborted">
}

export interface Engine {
  readonly name: string
  readonly alive: boolean
  readonly version: number
  readonly running: number
  generate(request: GenerateRequest): Promise<Generation[]>
  pause(mode: PauseMode, signal: AbortSignal): Promise<void>
  resume(): void
  load(version: number): void
  die(): void
  restart(version: number): void
}

export interface EngineOptions {
  readonly name: string
  readonly scenario: Scenario
  readonly clock: Clock
  readonly version: number
  readonly random: Random
  readonly isSlow: (promptText: string) => boolean
}

export function createEngine(options: EngineOptions): Engine {
  const { clock, random, scenario } = options
  const { rates } = scenario
  const flights = new Set<Flight>()
  /** Stand still while the engine is paused. */
  const waiting = new Set<Flight>()
  let { version } = options
  let alive = true
  let paused = false

  const arm = (flight: Flight): void => {
    flight.startedAtMs = clock.now()
    const timer = new AbortController()
    flight.timer = timer
    clock.sleep(flight.needMs - flight.doneMs, timer.signal).then(() => flight.end.resolve("finished"), () => undefined)
  }
  const halt = (flight: Flight): void => {
    if (flight.timer === undefined) return
    flight.doneMs += clock.now() - flight.startedAtMs
    flight.timer.abort(timerOver)
    flight.timer = undefined
  }
  const endAll = (outcome: "aborted" | CohortError): void => {
    for (const flight of flights) {
      halt(flight)
      if (outcome === "aborted") flight.end.resolve("aborted")
      else flight.end.reject(outcome)
    }
  }

  const run = async (request: GenerateRequest): Promise<readonly [Flight, "finished" | "aborted"]> => {
    const slow = options.isSlow(promptText(request.promptIds)) ? slowFactor : 1
    const tokenMs = scenario.tokenMs * slow * heavyTail(random)
    const limit = Math.min(maxTokens, request.sampling.maxTokens)
    const lengths = Array.from({ length: request.n }, () => Math.min(limit, Math.max(1, Math.round(3 * heavyTail(random)))))
    const flight: Flight = {
      lengths, limit, tokenMs, needMs: tokenMs * Math.max(...lengths),
      versions: [{ fromMs: 0, version }], doneMs: 0, startedAtMs: 0, timer: undefined, end: Promise.withResolvers(),
    }
    const onAbort = (): void => {
      halt(flight)
      flight.end.reject(request.signal.reason)
    }
    request.signal.addEventListener("abort", onAbort, { once: true })
    flights.add(flight)
    try {
      const stuck = random() < rates.stuck
      if (paused && !stuck) waiting.add(flight)
      else if (!stuck) arm(flight)
      return [flight, await flight.end.promise]
    } finally {
      flights.delete(flight)
      waiting.delete(flight)
      request.signal.removeEventListener("abort", onAbort)
    }
  }
  return {
    name: options.name,
    get alive() {
      return alive
    },
    get version() {
      return version
    },
    get running() {
      return flights.size
    },
    async generate(request) {
      request.signal.throwIfAborted()
      if (random() < rates.failed) {
        await clock.sleep(1, request.signal)
        throw new CohortError("inference_failed", "500: out of luck")
      }
      const [flight, outcome] = await run(request)
      const broken = random() < rates.invalid
      return flight.lengths.map((length, child) => answerOf(flight, length, outcome, broken && child === 0, kindOf(random, request)))
    },
    async pause(mode, signal) {
      if (mode === "abort") endAll("aborted")
      // A server that waits for its requests is bounded by the transfer's patience, here two seconds.
      if (mode === "wait") for (let waited = 0; flights.size > 0 && waited < 2_000; waited += 50) await clock.sleep(50, signal)
      paused = true
      for (const flight of flights)
        if (flight.timer !== undefined) {
          halt(flight)
          waiting.add(flight)
        }
    },
    resume() {
      paused = false
      for (const flight of waiting) arm(flight)
      waiting.clear()
    },
    load(next) {
      version = next
      for (const flight of flights) flight.versions.push({ fromMs: flight.doneMs, version })
    },
    die() {
      alive = false
      endAll(new CohortError("inference_failed", "the connection was reset"))
    },
    restart(next) {
      alive = true
      paused = false
      version = next
    },
  }
}

/** The last token but one says whether a tool is called. */
function kindOf(random: Random, request: GenerateRequest): TokenKind {
  if (!promptText(request.promptIds).includes("<assistant>")) return "plain"
  const draw = random()
  return draw < 0.5 ? "call" : draw < 0.6 ? "malformedCall" : draw < 0.7 ? "badArguments" : "plain"
}

function answerOf(flight: Flight, length: number, outcome: "finished" | "aborted", broken: boolean, kind: TokenKind): Generation {
  const spans: VersionSpan[] = []
  for (const { fromMs, version } of flight.versions) {
    const from = Math.ceil(fromMs / flight.tokenMs)
    if (from >= length) break
    if (spans.at(-1)?.[0] === from) spans.pop()
    if (spans.at(-1)?.[1] !== version) spans.push([from, version])
  }
  const versionAt = (token: number): number => spans.findLast(([from]) => from <= token)![1]
  const cut = length >= flight.limit
  const kindAt = (token: number): TokenKind => (token === length - 1 && !cut ? "stop" : token === length - 2 ? kind : "plain")
  const tokenIds = Int32Array.from({ length }, (_, token) => generatedId(versionAt(token), kindAt(token)))
  const logProbs = Float32Array.from(tokenIds, logProbOfId)
  if (broken) logProbs[0] = Number.NaN
  return { tokenIds, logProbs: broken && length > 3 ? logProbs.slice(1) : logProbs, finishReason: outcome === "aborted" ? "abort" : cut ? "length" : "stop", versions: spans }
}

/** Several engines behind one face, as a pool routes: the least busy that lives; patience while none does. */
export function createEngines(options: Omit<EngineOptions, "name" | "random">): { readonly all: readonly Engine[]; generate(request: GenerateRequest): Promise<Generation[]> } {
  const { clock, scenario } = options
  const all = Array.from({ length: scenario.engines }, (_, index) =>
    createEngine({ ...options, name: `engine ${index}`, random: seededRandom(seedOf(scenario.seed, 2, index, options.version)) }),
  )
  return {
    all,
    async generate(request) {
      for (let waitedMs = 0; ; waitedMs += 200) {
        const [best] = all.filter(({ alive }) => alive).toSorted((a, b) => a.running - b.running)
        if (best !== undefined) return best.generate(request)
        if (waitedMs >= 10_000) throw new CohortError("inference_unreachable", "no server answers")
        await clock.sleep(200, request.signal)
      }
    },
  }
}
