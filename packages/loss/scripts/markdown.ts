// Pages as Markdown.
import { metricDefinitions, metricTable } from "../src/index.ts"
import { objectivePages, type Page, partPages } from "./pages.ts"

const GENERATED = "Written by `bun run docs` in `packages/loss`; change `scripts/pages.ts`, not this page."

function pageMarkdown(page: Page): string {
  const definitions = page.metrics.map((name) => {
    const found = metricDefinitions.find((definition) => definition.name === name)
    if (found === undefined) throw new RangeError(`no metric ${name}`)
    return found
  })
  return [
    `# ${page.title}`,
    "",
    GENERATED,
    "",
    `Source: ${page.source}.`,
    "",
    "```text",
    ...page.formula,
    "```",
    "",
    ...page.about.flatMap((paragraph) => [paragraph, ""]),
    `**When.** ${page.when}`,
    "",
    "```toml",
    page.config,
    "```",
    "",
    ...(definitions.length === 0 ? [] : ["What to watch:", "", metricTable(definitions), ""]),
  ].join("\n")
}

function indexMarkdown(): string {
  const list = (pages: Readonly<Record<string, Page>>): string[] => Object.entries(pages).map(([name, { title }]) => `- [${title}](${name}.md)`)
  return ["# Objectives", "", GENERATED, "", "One line of a config names an objective; the parts below go with any of them. Values and gradients are compared with TRL and PyTorch in `test/parity/objectives`.", "", ...list(objectivePages), "", "## Parts", "", ...list(partPages), "", "- [Batches: budget, shapes, packing, shared prompts](batching.md)", "- [All metrics](metrics.md)", ""].join("\n")
}

function metricsMarkdown(): string {
  return ["# Metrics of the objective", "", GENERATED, "", "p policy, b behaviour (the sampler), q reference, A advantage, r the objective's ratio, H entropy, N trained tokens of the step.", "", metricTable(), ""].join("\n")
}

/** Every page of docs/objectives by file name. */
export function objectiveDocs(): ReadonlyMap<string, string> {
  const pages = Object.entries({ ...objectivePages, ...partPages }).map(([name, page]) => [`${name}.md`, pageMarkdown(page)] as const)
  return new Map([["README.md", indexMarkdown()], ["metrics.md", metricsMarkdown()], ...pages])
}
