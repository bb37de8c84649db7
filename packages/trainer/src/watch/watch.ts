// Looks at every step's figures and says what is to be done: go on, warn, hold rollouts back, publish weights now, stop.
import type { RunConfig } from "@cohort/config"
import type { BiasMonitor, Throttle } from "@cohort/rollout"
import { createRails } from "./rails.ts"

/** A callback of the user after each step; what it returns as `stop` ends the run with that reason. */
export type StepCallback = (step: number, metrics: Readonly<Record<string, number>>) => Promise<{ readonly stop?: string } | void> | { readonly stop?: string } | void

export interface Verdict {
  readonly warnings: readonly string[]
  /** Why the run ends here. */
  readonly stop: string | undefined
  readonly syncNow: boolean
}

export interface StepWatch {
  check(step: number, metrics: Readonly<Record<string, number>>): Promise<Verdict>
}

export interface WatchOptions {
  readonly config: Pick<RunConfig, "guardrails" | "staleness">
  readonly groupsPerStep: number
  /** Groups that may be ahead of the trainer without a throttle; what pacing allows where absent. */
  readonly mostAhead?: number
  readonly throttle: Throttle
  readonly callbacks?: readonly StepCallback[]
  /** Its alarm is a warning. */
  readonly bias?: Pick<BiasMonitor, "report">
}

/**
 * A broken limit with `throttle` takes a quarter of the groups that may be ahead, each step, down to one step's; each step that keeps
 * all limits gives one back.
 *
 * @example
 * const watch = createWatch({ config, groupsPerStep: 8, throttle })
 * const { stop } = await watch.check(step, metrics)
 */
export function createWatch(options: WatchOptions): StepWatch {
  const { config, groupsPerStep, throttle, callbacks = [] } = options
  const guardrails = createRails(config.guardrails.map(({ when, forSteps, action }) => ({ text: when, forSteps, action, firesWhen: true })))
  const slos = createRails(config.staleness.slo.map(({ keep, forSteps, action }) => ({ text: keep, forSteps, action, firesWhen: false })))
  const mostAhead = options.mostAhead ?? (config.staleness.maxSteps + 1) * groupsPerStep
  const warned = new Set<string>()
  const seen = new Set<string>()
  let checks = 0

  /** The first of a row is said, not each of it. */
  const warnOnce = (key: string, fires: boolean, message: string): readonly string[] => {
    if (!fires) warned.delete(key)
    if (!fires || warned.has(key)) return []
    warned.add(key)
    return [message]
  }

  return {
    async check(step, metrics) {
      const warnings: string[] = []
      for (const name of Object.keys(metrics)) seen.add(name)
      if (++checks === patienceSteps)
        for (const { metric, text } of [...guardrails.metrics, ...slos.metrics])
          if (!seen.has(metric)) warnings.push(`"${text}" watches ${metric}, which no step has had so far: look at its name`)
      let stop: string | undefined
      const collapsed = guardrails.check(metrics)
      for (const { when } of config.guardrails) {
        const fired = collapsed.find(({ text }) => text === when)
        const message = `${when} for ${fired?.steps} steps (${fired?.values})`
        if (fired?.action === "stop") stop ??= message
        else warnings.push(...warnOnce(`guardrail ${when}`, fired !== undefined, message))
      }
      const broken = slos.check(metrics)
      for (const { keep, action } of config.staleness.slo) {
        const fired = broken.find((candidate) => candidate.text === keep && candidate.action === action)
        const message = `${keep} is not kept: ${fired?.values}`
        if (fired?.action === "stop") stop ??= message
        else warnings.push(...warnOnce(`slo ${keep} ${action}`, fired !== undefined, action === "warn" ? message : `${message}; ${measures[action]}`))
      }
      const alarm = options.bias?.report().alarm ?? null
      warnings.push(...warnOnce("bias", alarm !== null, `${alarm}`))
      if (broken.some(({ action }) => action === "throttle")) throttle.maxAhead = Math.max(groupsPerStep, Math.floor(Math.min(mostAhead, throttle.maxAhead) * 0.75))
      else if (throttle.maxAhead < mostAhead) throttle.maxAhead++
      for (const callback of callbacks) {
        const asked = await callback(step, metrics)
        if (asked?.stop !== undefined) stop ??= asked.stop
      }
      return { warnings, stop, syncNow: broken.some(({ action }) => action === "syncNow") }
    },
  }
}

/** Steps after which a figure that never came is spoken of: some, as the bias, take a while. */
const patienceSteps = 10

const measures = { throttle: "fewer groups may run ahead", syncNow: "weights are published now", stop: "the run ends" } as const
