// docs/objectives/batching.md.
import { batchMetricDefinitions } from "../src/index.ts"

export function batchingMarkdown(): string {
  return [
    "# Batches",
    "",
    "Written by `bun run docs` in `packages/batching`; change `scripts/markdown.ts`, not this page.",
    "",
    "An optimizer step trains `train.completionsPerStep` completions: whole groups, never a part of one. They are cut into micro-batches of a few fixed",
    "shapes, since each shape is one compiled step; the loss is divided by totals of the whole step, so the cut never changes it.",
    "",
    "- **Tokens and predictions.** The model reads all tokens of a completion but the last, which predicts nothing; the loss sees the predictions. Lengths and",
    "  shapes below count what the model reads, and a row is as long as its tokens or its predictions, whichever are more.",
    "- **Budget.** A micro-batch takes at most `train.tokenBudget` tokens. A completion longer than that is dropped, and counted.",
    "  `train.samplesPerBatch` fixes the number of completions instead, whatever their length.",
    "- **Shapes.** At most eight over a whole run. The first use of a shape compiles it, so a step takes to a new one only when the padding that it would have saved",
    "  so far pays for that, and to one that holds steps a little longer, too; padding stays under 10 % on the distributions of `bench/batching.ts`.",
    "- **Packing.** Rows may hold several completions. Positions start again with each, and a token sees those of its own completion only. Chosen where it is cheaper",
    "  than a row each: tokens with their padding, attention over the row, calls. `train.packing` forces one or the other.",
    "- **Shared prompts.** The tokens that all completions of a group begin with are forwarded once, where the plan gets cheaper for it: a trunk, then a branch per",
    "  completion. The hidden state of the trunk's last token predicts the first token of every branch. Losses and gradients are those of rows apart;",
    "  trained tokens are never shared, since each completion has its own advantage.",
    "- **Balance.** Rows of one micro-batch, and of several workers, have like sums of squared lengths, which is what attention costs.",
    "",
    "| metric | unit | formula | meaning |",
    "|---|---|---|---|",
    ...batchMetricDefinitions.map(({ name, unit, formula, doc }) => `| \`${name}\` | ${unit} | \`${formula}\` | ${doc} |`),
    "",
  ].join("\n")
}
