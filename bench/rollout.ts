// What a turn costs beside its generation: 10,000 episodes of three turns with tool calls, 1,024 in flight, groups of 8 scored and queued. Tokenizer and
// generator are scripted on both sides (a character is a token, an answer takes 20 ms of waiting). What the generator costs by itself is measured with the same
// requests at the same concurrency and taken off, on both sides alike: processor time that is left is orchestration, chat template and tokenizer included.
// COHORT_BENCH_PYTHON as `setup.ts` prints it runs the same on the worker of TRL's AsyncGRPOTrainer; without it no peer.
import { createRolloutWorker, dropPolicy, type EpisodeTokenizer, systemClock } from "@cohort/rollout"
import type { GenerateRequest, Generation } from "@cohort/inference"
import { startPeer } from "./peer.ts"

const episodes = Number(process.env["COHORT_BENCH_EPISODES"] ?? 10_000)
const groupSize = 8
const turnsPerEpisode = 3
const inFlight = 1024
const generateMs = 20
const answerTokens = 32
const repetitions = 3
const overheadLimitUs = 300
const stop = 1
const callMark = 2

const idsOf = (text: string): number[] => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))

const tokenizer: EpisodeTokenizer = {
  encodePrompt: (prompt) =>
    Int32Array.from(typeof prompt === "string" ? idsOf(prompt) : [...prompt.flatMap(({ role, content, tool_calls: calls = [] }) => [...idsOf(`<${role}>${content}${calls.map((call) => call.function.name).join("")}`), stop]), ...idsOf("<assistant>")]),
  decode: () => "",
  parseAssistant: (ids) =>
    ids[0] === callMark
      ? { message: { role: "assistant", content: "", tool_calls: [{ type: "function", function: { name: "look", arguments: { at: 1 } } }] }, text: "" }
      : { message: { role: "assistant", content: "done" }, text: "done" },
}

const tool = "<tool>"
const toolIds = idsOf(tool)

/** A call until two results are there, as peers/trl_worker.py does it. */
function answerTo(promptIds: Int32Array): Int32Array {
  let results = 0
  for (let at = 0; at + tool.length <= promptIds.length; at++) if (promptIds[at] === toolIds[0] && toolIds.every((id, i) => promptIds[at + i] === id)) results++
  return Int32Array.from({ length: answerTokens }, (_, at) => (at === 0 && results < turnsPerEpisode - 1 ? callMark : at === answerTokens - 1 ? stop : 97))
}

/** The prompts of an episode's turns, as the worker sent them. */
const promptsSeen: Int32Array[] = []

async function generate({ promptIds, n }: Pick<GenerateRequest, "promptIds" | "n">): Promise<Generation[]> {
  if (promptsSeen.length < turnsPerEpisode && promptIds.length > (promptsSeen.at(-1)?.length ?? 0) + answerTokens) promptsSeen.push(promptIds)
  await new Promise((resolve) => setTimeout(resolve, generateMs))
  return Array.from({ length: n }, () => ({ tokenIds: answerTo(promptIds), logProbs: new Float32Array(answerTokens).fill(-0.5), finishReason: "stop", versions: [[0, 0]] }))
}

interface Figure {
  readonly microsPerTurn: number
  /** Of it, what the generator costs by itself. */
  readonly generatorMicrosPerTurn: number
  readonly growthMiB: number
}

async function measure(): Promise<Figure> {
  let next = 0
  let score = 0
  const worker = createRolloutWorker({
    tokenizer, server: { generate }, clock: systemClock, log: () => undefined,
    limits: { maxModelLength: 4096, maxTurns: 8, generateTimeoutMs: 60_000, toolTimeoutMs: 10_000, environmentTimeoutMs: 10_000, episodeTimeoutMs: 120_000, forkThresholdTokens: 8 },
    groupSize, rules: { maxAttempts: 1, minMembers: 2 }, retryDelayMs: 100,
    sampling: { maxTokens: answerTokens, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [stop] },
    seed: 1,
    environmentOf: () => () => ({ reset: () => undefined, tools: { look: { description: "looks", run: () => "seen" } } }),
    rewards: [{ name: "count", weight: 1, timeoutMs: 10_000, maxAttempts: 1, reward: () => score++ % 3 }],
    environmentWeight: 1,
    advantages: (rewards) => {
      const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
      return rewards.map((reward) => reward - mean)
    },
    filterZeroSpread: false,
    emit: () => undefined,
    nextPrompt: () => (next * groupSize >= episodes ? undefined : { occurrence: next, row: { id: `${next}`, prompt: `question ${next++}: what is seen when one looks twice?` } }),
    promptTimeoutMs: 10_000, policy: dropPolicy, maxStaleness: 0, groupsPerStep: 1, stepsPerSync: 1, startVersion: 0,
    queueCapacity: 64, maxConcurrentRollouts: inFlight, maxGroupsInFlight: inFlight, heartbeatMs: 1_000, stopTimeoutMs: 5_000,
    maxConsecutiveFailures: 8, maxConsecutiveFiltered: 8, onGiveBack: () => undefined,
  })
  const before = process.cpuUsage()
  let turns = 0
  let groups = 0
  let settledBytes = 0
  let weighed = 0
  await worker.start()
  for await (const group of worker.samples) {
    turns += group.samples.length * turnsPerEpisode
    groups++
    if (groups === Math.floor(episodes / groupSize / 4)) {
      const start = process.cpuUsage()
      settledBytes = residentAfterGc()
      const { user, system } = process.cpuUsage(start)
      weighed = user + system
    }
  }
  const { user, system } = process.cpuUsage(before)
  await worker.stop()
  if (turns !== episodes * turnsPerEpisode) throw new Error(`${turns} turns of ${episodes * turnsPerEpisode}`)
  return { microsPerTurn: (user + system - weighed) / turns, generatorMicrosPerTurn: await measureGenerator(), growthMiB: (residentAfterGc() - settledBytes) / 2 ** 20 }
}

/** The same requests without a worker: each of `inFlight` loops asks for the turns of its share of the episodes. */
async function measureGenerator(): Promise<number> {
  const before = process.cpuUsage()
  let left = episodes
  const loop = async (): Promise<void> => {
    while (left-- > 0) for (const promptIds of promptsSeen) await generate({ promptIds, n: 1 })
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (episodes * turnsPerEpisode)
}

/** Heap in use once everything that can go is gone. */
function residentAfterGc(): number {
  Bun.gc(true)
  return process.memoryUsage().heapUsed
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
const rounded = (value: number): number => Number(value.toPrecision(4))

const python = process.env["COHORT_BENCH_PYTHON"]
await using peer = python === undefined ? undefined : startPeer(python, new URL("./peers/trl_worker.py", import.meta.url).pathname)
const mine: Figure[] = []
const theirs: Pick<Figure, "microsPerTurn" | "generatorMicrosPerTurn">[] = []
const overhead = ({ microsPerTurn, generatorMicrosPerTurn }: Pick<Figure, "microsPerTurn" | "generatorMicrosPerTurn">): number => microsPerTurn - generatorMicrosPerTurn
await measure()
for (let repetition = 0; repetition < repetitions; repetition++) {
  mine.push(await measure())
  if (peer !== undefined) theirs.push(await peer.ask({ episodes, groupSize, turnsPerEpisode, inFlight, generateMs, answerTokens }))
}
const value = median(mine.map(overhead))
const generator = rounded(median(mine.map(({ generatorMicrosPerTurn }) => generatorMicrosPerTurn)))
const compared =
  theirs.length === 0 ? {} : {
    peer: "TRL AsyncGRPO rollout worker", peerValue: rounded(median(theirs.map(overhead))), peerBest: rounded(Math.min(...theirs.map(overhead))),
    peerGenerator: rounded(median(theirs.map(({ generatorMicrosPerTurn }) => generatorMicrosPerTurn))), ratio: rounded(median(theirs.map(overhead)) / value),
  }
process.stdout.write(`${JSON.stringify({ name: "rollout/overhead-per-turn", value: rounded(value), best: rounded(Math.min(...mine.map(overhead))), unit: "us of processor time", generator, ...compared, growthMiB: rounded(median(mine.map(({ growthMiB }) => growthMiB))), episodes, inFlight })}\n`)
if (value > overheadLimitUs) process.exitCode = 1
