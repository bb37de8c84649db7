// What is known of a run so far, drawn from its updates, and how that reads in one line.
import type { RunUpdate, StepReport } from "@cohort/trainer"
import { count, decimal, duration, percent } from "./numbers.ts"
import { sparkline } from "./sparkline.ts"

type Phase = Extract<RunUpdate, { kind: "phase" }>

export interface RunView {
  readonly phase: Phase["phase"] | undefined
  /** What is being done now, with how far where that is known. */
  readonly message: string
  readonly last: StepReport | undefined
  /** Mean reward of each step. */
  readonly rewards: readonly number[]
}

export const emptyView: RunView = { phase: undefined, message: "Starting", last: undefined, rewards: [] }

/** The view after an update. */
export function nextView(view: RunView, update: RunUpdate): RunView {
  switch (update.kind) {
    case "phase":
      return { ...view, phase: update.phase, message: update.message }
    case "progress":
      return { ...view, message: progressText(update) }
    case "step":
      return { ...view, phase: "train", last: update.report, rewards: [...view.rewards, update.report.metrics["reward/mean"] ?? Number.NaN] }
    default:
      return view
  }
}

/** `Downloading (274 MB) 45%`. */
export function progressText({ message, done, total }: { readonly message: string; readonly done: number; readonly total: number }): string {
  return total > 0 ? `${message} ${Math.floor(100 * Math.min(1, done / total))}%` : message
}

/**
 * The live line: `train 12/60 ▁▂▄▆ reward 0.43  1,210 samples/s  age 2  queue 3`.
 *
 * @param sparkWidth characters of the reward's curve
 */
export function statusText(view: RunView, sparkWidth = 16): string {
  const { phase, last } = view
  if (last === undefined || (phase !== "train" && phase !== undefined)) return view.message
  const { step, totalSteps, metrics } = last
  const parts = [`train ${step}/${totalSteps}`, `${sparkline(view.rewards, sparkWidth)} reward ${decimal(metrics["reward/mean"] ?? Number.NaN)}`]
  const rate = metrics["samples_per_second"]
  if (rate !== undefined) parts.push(`${decimal(rate)} samples/s`)
  if (metrics["age/p95"] !== undefined) parts.push(`age ${decimalOrWhole(metrics["age/p95"])}`)
  if (metrics["queue/depth"] !== undefined) parts.push(`queue ${decimalOrWhole(metrics["queue/depth"])}`)
  return parts.join("  ")
}

const decimalOrWhole = (value: number): string => (Number.isInteger(value) ? count(value) : decimal(value))

/** Metrics in a step's plain line, with the words before and after the number. */
const stepFields: readonly (readonly [metric: string, show: (value: number) => string])[] = [
  ["reward/mean", (value) => `reward ${decimal(value)}`],
  ["loss", (value) => `loss ${decimal(value)}`],
  ["kl/behavior", (value) => `kl ${decimal(value)}`],
  ["entropy", (value) => `entropy ${decimal(value)}`],
  ["grad_norm", (value) => `grad ${decimal(value)}`],
  ["samples_per_second", (value) => `${decimal(value)} samples/s`],
  ["trained_tokens_per_second", (value) => `${count(value)} tokens/s`],
  ["age/p95", (value) => `age p95 ${decimalOrWhole(value)}`],
  ["queue/depth", (value) => `queue ${decimalOrWhole(value)}`],
  ["groups/dropped", (value) => `dropped ${count(value)}`],
  ["step_seconds", (value) => duration(value)],
]

/** One plain line for a step; metrics that a step lacks are left out. */
export function stepText({ step, totalSteps, metrics }: StepReport): string {
  const fields = stepFields.flatMap(([name, show]) => (metrics[name] === undefined ? [] : [show(metrics[name])]))
  return [`step ${step}/${totalSteps}`, ...fields].join("  ")
}

/** The line that an update leaves behind, above the live line and in logs; undefined where it leaves none. */
export function updateText(update: RunUpdate): string | undefined {
  switch (update.kind) {
    case "phase":
      // The summary that follows names the folder.
      return update.phase === "done" ? undefined : update.message
    case "step":
      return stepText(update.report)
    case "eval": {
      const { step, accuracy, rewardMean, prompts, seconds } = update.report
      return `evaluation at step ${step}: accuracy ${percent(accuracy)}, reward ${decimal(rewardMean)} on ${count(prompts)} prompts (${duration(seconds)})`
    }
    case "checkpoint":
      return `checkpoint of step ${update.step}: ${update.dir}`
    case "warning":
      return `warning: ${update.message}`
    case "sync":
    case "progress":
      return undefined
  }
}
