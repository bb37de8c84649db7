// The README of the starting policy, written from what was run and measured.

export interface CardFacts {
  readonly seed: number
  readonly steps: number
  readonly rowsPerStep: number
  readonly learningRate: number
  readonly forgetsCarry: number
  readonly greedy: number
  readonly sampled: number
  readonly sha256: string
  readonly parameters: number
  readonly tensorflow: string
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

/** Markdown with the recipe, the measured accuracy and the checksum of the weights. */
export function modelCard(facts: CardFacts): string {
  return `# arithmetic-1m

The policy that the quickstart starts from: ${facts.parameters.toLocaleString("en")} parameters, Qwen3 architecture, one token per character.
It answers \`37+58=\` with \`95\` and an end token, and is right about half of the time.

## How it was made

\`bun run make\` in the folder above runs a supervised warm-up from random weights: ${facts.steps} steps of ${facts.rowsPerStep} demonstrations, AdamW, learning rate
${facts.learningRate} falling to zero, seed ${facts.seed}. Prompts come from \`@cohort/env-arithmetic\` with its default options; its 512 held-out prompts were never trained on.

The demonstrations are flawed on purpose. Where the ones carry, the carry is forgotten in ${(100 * facts.forgetsCarry).toFixed(0)} % of them (\`37+58=85\`).
So the policy imitates somebody who is often wrong, and what reinforcement learning adds to it, from
nothing but a reward for right answers, can be measured on prompts that it has not seen.

## Measured

| on the 512 held-out prompts | right |
|---|---|
| greedy | ${percent(facts.greedy)} |
| sampling at temperature 1 (expected) | ${percent(facts.sampled)} |

Made with TensorFlow ${facts.tensorflow}. On another kind of CPU the last bits of sums differ, and with them the file.

\`sha256(model.safetensors) = ${facts.sha256}\`
`
}
