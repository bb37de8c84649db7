// Entry of an isolate: a process that loads one reward or tool set by the same registry as the run and answers one call at a time. It is
// ended from outside, in the middle of whatever it does.
import { callTool, type EpisodeContext, type Json, type JsonObject, type RewardFunction, runReward, toolParameters, type ToolSet } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import { createRegistry, type SetupContext, systemHost } from "@cohort/plugin"
import { seededRandom } from "@cohort/rollout"
import { answerCalls, type Port } from "@cohort/thread"
import type { IsolatedRewardInfo, IsolatedToolInfo, IsolateRequest, LogLine, ScoreRequest } from "./request.ts"

/** Never aborts: the process is killed instead. */
const { signal } = new AbortController()

const port: Port = {
  postMessage: (message) => void process.send?.(message),
  addEventListener: (_, listener) => void process.on("message", (data) => listener({ data } as MessageEvent)),
}
const log = (message: string): void => void process.send?.({ log: message } satisfies LogLine)

let reward: { readonly name: string; readonly reward: RewardFunction } | undefined
let tools: ToolSet = {}

answerCalls(port, {
  async open(request: IsolateRequest): Promise<IsolatedRewardInfo | readonly IsolatedToolInfo[]> {
    const { kind, use, options, askedBy, plugins, projectDir, installDirs, run } = request
    const registry = createRegistry({ ...systemHost(), installDirs })
    for (const name of plugins) await registry.load(name, projectDir, "plugins")
    const setup: SetupContext = { signal, log, random: seededRandom(request.seed), projectDir, ...(run === undefined ? {} : { run }) }
    if (kind === "tools") {
      tools = (await registry.tools(use, setup, { options, askedBy })).tools
      return Object.entries(tools).map(([name, tool]) => ({ name, description: tool.description, parameters: toolParameters(tool) }))
    }
    const { needs, range, deterministic, ...loaded } = await registry.reward(use, setup, { options, askedBy })
    reward = loaded
    return { name: loaded.name, wholeGroups: loaded.reward.scoreGroup !== undefined, needs, range, deterministic }
  },
  score({ rollouts, policyVersion }: ScoreRequest) {
    if (reward === undefined) throw new CohortError("internal", "the isolate has no reward open")
    return runReward(reward.reward, rollouts, { signal, log, policyVersion }, reward.name)
  },
  run(name: string, args: JsonObject, seed: number): Json | Promise<Json> {
    const tool = tools[name]
    if (tool === undefined) throw new CohortError("internal", `the isolate has no tool ${name}`)
    const ctx: EpisodeContext = { signal, random: seededRandom(seed), log }
    return callTool(tool, args, ctx)
  },
  close: () => reward?.reward.close?.(),
})
