// The one definition of each batching metric that users see; the docs table is made from it.

/** Facts of one optimizer step that the metrics follow from. */
export interface BatchFacts {
  readonly batches: number
  /** Rows of all batches that hold samples, and their samples and groups. */
  readonly samples: number
  readonly groups: number
  readonly trainedTokens: number
  /** Tokens that went through the model, without padding; and those of all samples, each with its last token, which is never forwarded. */
  readonly forwardedTokens: number
  readonly realTokens: number
  /** rows * length over all batches. */
  readonly paddedTokens: number
  readonly imbalance: number
  readonly droppedOverBudget: number
}

export interface BatchMetricDefinition {
  readonly name: string
  readonly unit: string
  readonly formula: string
  readonly doc: string
  /** Null where it says nothing. */
  readonly valueOf: (facts: BatchFacts) => number | null
}

const share = (part: number, whole: number): number | null => (whole > 0 ? part / whole : null)

export const batchMetricDefinitions: readonly BatchMetricDefinition[] = [
  { name: "batch/completions", unit: "completions", formula: "samples trained", doc: "Batch size; a rollout that was cut into several rows counts each.", valueOf: (facts) => facts.samples },
  { name: "batch/prompts", unit: "prompts", formula: "groups trained", doc: "Prompts of the step; completions / prompts is the group size where none was lost.", valueOf: (facts) => facts.groups },
  { name: "batch/micro_batches", unit: "1", formula: "micro-batches", doc: "Calls of forward and backward in the step; their number never changes the loss.", valueOf: (facts) => facts.batches },
  { name: "batch/trained_share", unit: "share", formula: "trained tokens / (rows * length)", doc: "What of the computed positions earns a gradient.", valueOf: (facts) => share(facts.trainedTokens, facts.paddedTokens) },
  { name: "batch/forwarded_share", unit: "share", formula: "tokens forwarded / (rows * length)", doc: "Tokens that the model reads, prompts included; the last of a completion predicts nothing and is not among them.", valueOf: (facts) => share(facts.forwardedTokens, facts.paddedTokens) },
  { name: "batch/pad_share", unit: "share", formula: "1 - tokens forwarded / (rows * length)", doc: "Compute spent on padding.", valueOf: (facts) => share(facts.paddedTokens - facts.forwardedTokens, facts.paddedTokens) },
  { name: "batch/packing_ratio", unit: "1", formula: "tokens of all samples but their last / tokens forwarded", doc: "Above 1: common starts of a group are forwarded once.", valueOf: (facts) => share(facts.realTokens - facts.samples, facts.forwardedTokens) },
  { name: "batch/row_imbalance", unit: "1", formula: "max / mean of the attention cost of rows (or of batches of one shape)", doc: "1 is even; above it the others wait for the heaviest.", valueOf: (facts) => facts.imbalance },
  { name: "batch/dropped", unit: "completions", formula: "completions longer than the token budget", doc: "Never trained; raise train.tokenBudget if this is not 0.", valueOf: (facts) => facts.droppedOverBudget },
]
