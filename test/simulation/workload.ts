// Prompts, rewards and environments of the simulation.
import type { Environment, EnvironmentFactory, PromptRow, RowSource, Tool } from "@cohort/env"
import { type Clock, type Random, type RewardEntry, seededRandom, seedOf } from "@cohort/rollout"
import { deadlines, heavyTail, type Scenario } from "./scenario.ts"

export interface Workload {
  readonly source: RowSource
  readonly rewards: readonly RewardEntry[]
  readonly environmentOf: (row: PromptRow) => EnvironmentFactory | undefined
  isSlow(promptText: string): boolean
  /** Environments made and not closed. */
  readonly openEnvironments: number
}

/** Window of the simulated servers in tokens; an over-long prompt has more. */
export const maxModelLength = 180

const never = (): Promise<never> => new Promise(() => undefined)

export function createWorkload(scenario: Scenario, clock: Clock, life: number): Workload {
  const random = seededRandom(seedOf(scenario.seed, 3, life))
  const { rates } = scenario
  let open = 0

  const wait = (ms: number, signal: AbortSignal): Promise<void> => clock.sleep(ms * heavyTail(random), signal)
  const environment = (): Environment => {
    if (random() < rates.environmentBroken) throw new Error("no sandbox is free")
    open++
    const look: Tool<{ readonly at: number }> = {
      description: "looks",
      input: { "~standard": { version: 1, vendor: "simulation", validate: (input) => (isCall(input) ? { value: input } : { issues: [{ message: "at is missing", path: ["at"] }] }) } },
      async run(_input, { signal }) {
        if (random() < rates.toolStuck) return never()
        await wait(scenario.toolMs, signal)
        if (random() < rates.toolFailed) throw new Error("the tool broke")
        return "seen"
      },
    }
    return {
      tools: { look },
      async reset(row) {
        return `${String(row.index)}.`
      },
      async respond({ turn }) {
        return turn < 2 && random() < 0.3 ? { messages: [{ role: "user", content: "go on" }] } : { done: true }
      },
      score: () => (random() < 0.5 ? 0 : 1),
      close() {
        open--
      },
    }
  }

  return {
    source: {
      name: "simulated rows",
      size: scenario.rows,
      at: (index) => ({ id: `row-${index}`, prompt: promptOf(scenario, index), index, tools: hasTools(scenario, index) }),
    },
    environmentOf: (row) => (row.tools === true ? environment : undefined),
    isSlow: (text) => slowText.test(text),
    get openEnvironments() {
      return open
    },
    rewards: [
      {
        name: "exact", weight: 1, timeoutMs: deadlines.rewardTimeoutMs, maxAttempts: 2,
        reward: async (_rollout, { signal }) => {
          if (random() < rates.rewardStuck) return never()
          await wait(scenario.rewardMs, signal)
          if (random() < rates.rewardFailed) {
            if (random() < 0.5) throw new Error("the verifier broke")
            return Number.NaN
          }
          return Math.floor(random() * 3)
        },
      },
      { name: "style", weight: 0.5, timeoutMs: deadlines.rewardTimeoutMs, maxAttempts: 1, reward: { scoreGroup: (rollouts) => rollouts.map(() => (random() < 0.3 ? null : random() < 0.5 ? 1 : 0)) } },
    ],
  }
}

const slowText = /slow/

const isCall = (input: unknown): input is { readonly at: number } => typeof input === "object" && input !== null && "at" in input

/** Row properties follow from seed and index alone: a resumed life has the same dataset. */
function drawOf(scenario: Scenario, index: number, what: number): number {
  const random: Random = seededRandom(seedOf(scenario.seed, 4, index, what))
  return random()
}

export function isSlowRow(scenario: Scenario, index: number): boolean {
  return drawOf(scenario, index, 0) < scenario.slowShare
}

const hasTools = (scenario: Scenario, index: number): boolean => drawOf(scenario, index, 1) < scenario.environmentShare

function promptOf(scenario: Scenario, index: number): string {
  const tail = drawOf(scenario, index, 2) < scenario.rates.overlong ? "x".repeat(maxModelLength) : ""
  return `row ${index} ${isSlowRow(scenario, index) ? "slow" : "fast"} ${tail}`
}
