// The metric tables of docs/glossary.md, made from the definitions that the code computes by.
import { batchMetricDefinitions } from "@cohort/batching"
import { metricDefinitions } from "@cohort/loss"
import { stepMetricDefinitions } from "@cohort/trainer"

interface Definition {
  readonly name: string
  readonly unit: string
  readonly formula: string
  readonly doc: string
}

const begin = "<!-- metrics: written by `bun run docs` -->"
const end = "<!-- end of metrics -->"

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("<", "&lt;")

function table(definitions: readonly Definition[]): string {
  const rows = definitions.map(({ name, unit, formula, doc }) => {
    const names = name.split(", ").map((each) => `\`${each}\``)
    return `| ${names.join(", ")} | ${cell(unit)} | ${cell(formula)} | ${cell(doc)} |`
  })
  return ["| metric | unit | formula | meaning |", "|---|---|---|---|", ...rows].join("\n")
}

/**
 * The glossary with its metric tables written anew; everything outside the two markers stays.
 *
 * @throws Error when a marker is missing
 */
export function withMetricTables(glossary: string): string {
  const [from, to] = [glossary.indexOf(begin), glossary.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/glossary.md must hold "${begin}" and after it "${end}"`)
  const tables = ["### Of a step", table(stepMetricDefinitions), "### Of its batches", table(batchMetricDefinitions), "### Of the objective", table(metricDefinitions)].join("\n\n")
  return `${glossary.slice(0, from)}${begin}\n\n${tables}\n\n${glossary.slice(to)}`
}
