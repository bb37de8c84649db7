// A measured pass rate as a person reads it.
import type { PassRateReport } from "@cohort/trainer"
import { count, decimal, percent } from "./numbers.ts"
import { type Paint, pad } from "./style.ts"

const colours = { signal: "green", weak: "yellow", none: "red" } as const

/** @example shell.stdout.write(passRateText(report, paint)) */
export function passRateText(report: PassRateReport, paint: Paint): string {
  const lines: (readonly [string, string])[] = [
    ["prompts", `${count(report.prompts)}, ${count(report.completions)} completions of ${decimal(report.tokensMean)} tokens on average`],
    ["pass rate", `${percent(report.passRate)}; never ${percent(report.neverPassed / report.prompts)}, always ${percent(report.alwaysPassed / report.prompts)} of the prompts`],
    ["cut, failed", `${percent(report.truncatedShare)}, ${percent(report.failedShare)}`],
    ["mixed groups", Object.entries(report.mixedShare).map(([size, share]) => `${size}: ${percent(share)}`).join("   ")],
    ["useful batch", `${decimal(report.usefulGroupsPerStep)} of ${count(report.groupsPerStep)} groups of ${report.groupSize} per step`],
    ["group size", `${report.suggestedGroupSize} suggested`],
  ]
  return [...lines.map(([name, value]) => `${pad(name, 14)}${value}`), "", paint(colours[report.verdict], report.advice), ""].join("\n")
}
