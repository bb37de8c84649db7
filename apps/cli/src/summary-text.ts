// The summary of a run as a person reads it at its end.
import type { EvalReport, RunSummary, StopReason } from "@cohort/trainer"
import { bytes, count, decimal, duration, percent } from "./numbers.ts"
import { fit, oneLine, type Paint, pad } from "./style.ts"

const endings: Readonly<Record<StopReason, string>> = {
  steps: "all steps done",
  time: "the time was up",
  reward: "the reward was reached",
  data: "the prompts ran out",
  guardrail: "a guardrail stopped it",
  interrupted: "interrupted",
  failed: "failed",
}

export interface SummaryOptions {
  readonly paint: Paint
  /** How the user starts this program: `cohort`, or `bun run cohort`. */
  readonly program: string
  /** A path as it should be shown. */
  readonly show: (path: string) => string
}

/** Several lines, the last of which says what to type next. */
export function summaryText(summary: RunSummary, { paint, program, show }: SummaryOptions): string {
  const title = `${count(summary.steps)} ${summary.steps === 1 ? "step" : "steps"} in ${duration(summary.trainSeconds)} of training (${endings[summary.stopped]})`
  const rows: (readonly [string, string])[] = [
    ["accuracy", accuracyText(summary, paint)],
    ["speed", `${decimal(summary.samplesPerSecond)} samples/s, ${count(summary.trainedTokensPerSecond)} trained tokens/s`],
    ["weight syncs", syncsText(summary.weightSyncs)],
    ["trajectory age", agesText(summary)],
    ["dropped groups", droppedText(summary.dropped)],
    ["time", timeText(summary)],
    ...(summary.bottleneck === null ? [] : [["bottleneck", bottleneckText(summary.bottleneck)] as const]),
    ["peak memory", bytes(summary.peakRssBytes)],
    ["run folder", show(summary.runDir)],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return [
    "",
    paint("bold", title),
    "",
    ...rows.map(([name, text]) => `  ${paint("dim", pad(name, width))}  ${text}`),
    ...exampleTable(summary.evalBefore, summary.evalAfter, paint),
    "",
    ...nextSteps(summary, { program, show, paint }),
    "",
  ].join("\n")
}

function accuracyText({ evalBefore, evalAfter }: RunSummary, paint: Paint): string {
  const prompts = evalAfter?.prompts ?? evalBefore?.prompts
  if (prompts === undefined) return "not measured: no evaluation prompts"
  const before = evalBefore === null ? "not measured" : percent(evalBefore.accuracy)
  const after = evalAfter === null ? "not measured" : percent(evalAfter.accuracy)
  return `${before} → ${paint("bold", after)} on ${count(prompts)} held-out prompts`
}

function syncsText(syncs: RunSummary["weightSyncs"]): string {
  if (syncs.length === 0) return "none"
  const seconds = syncs.map((sync) => sync.seconds)
  const mean = seconds.reduce((sum, value) => sum + value, 0) / seconds.length
  return `${count(syncs.length)}, mean ${duration(mean)}, longest ${duration(Math.max(...seconds))}, ${bytes(syncs.at(-1)!.bytes)} each`
}

function agesText({ ageP50, ageP95, ageMax }: RunSummary): string {
  if (ageP50 === null || ageP95 === null || ageMax === null) return "not measured"
  return `p50 ${decimal(ageP50)}, p95 ${decimal(ageP95)}, max ${count(ageMax)} steps`
}

function droppedText(dropped: RunSummary["dropped"]): string {
  const reasons = Object.entries(dropped).filter(([, groups]) => groups > 0).toSorted(([, a], [, b]) => b - a)
  if (reasons.length === 0) return "none"
  const total = reasons.reduce((sum, [, groups]) => sum + groups, 0)
  return `${count(total)} (${reasons.map(([reason, groups]) => `${reason.replaceAll("_", " ")} ${count(groups)}`).join(", ")})`
}

function timeText({ seconds, secondsToFirstStep }: RunSummary): string {
  return `${duration(seconds)} in all${secondsToFirstStep === null ? "" : `, ${duration(secondsToFirstStep)} until the first step was done`}`
}

function bottleneckText({ part, share, advice }: NonNullable<RunSummary["bottleneck"]>): string {
  return `${part.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}, ${percent(share)} of the last steps. ${advice}`
}

/** The same prompts before and after, where both evaluations looked at them. */
function exampleTable(before: EvalReport | null, after: EvalReport | null, paint: Paint): string[] {
  if (before === null || after === null) return []
  const answers = new Map(after.examples.map((example) => [example.id, example]))
  const rows = before.examples.flatMap((old) => {
    const now = answers.get(old.id)
    return now === undefined ? [] : [[fit(oneLine(old.prompt), 32), answerText(old), answerText(now)] as const]
  })
  if (rows.length === 0) return []
  const table = [["prompt", "before", "after"] as const, ...rows]
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => Bun.stringWidth(row[column]!))))
  const line = (row: readonly string[]): string => `  ${row.map((cell, column) => pad(cell, widths[column]!)).join("   ")}`.trimEnd()
  return ["", ...table.map((row, index) => (index === 0 ? paint("dim", line(row)) : line(row)))]
}

function answerText({ completion, reward }: EvalReport["examples"][number]): string {
  return `${fit(oneLine(completion), 28)} (${reward === null ? "no reward" : decimal(reward)})`
}

function nextSteps({ runDir, checkpoint, stopped }: RunSummary, { program, show, paint }: SummaryOptions): string[] {
  if (checkpoint === null) return ["No checkpoint was written."]
  const command = (line: string): string => `  ${paint("cyan", `${program} ${line}`)}`
  const more = stopped === "steps" ? " --train.steps N" : ""
  return ["What next:", command(`serve ${show(checkpoint)}`), command(`train --resume ${show(runDir)}${more}`)]
}
