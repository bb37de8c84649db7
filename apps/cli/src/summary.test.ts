import { expect, test } from "bun:test"
import type { EvalReport, RunSummary } from "@cohort/trainer"
import { painter } from "./style.ts"
import { summaryJson } from "./summary-json.ts"
import { summaryText } from "./summary-text.ts"

const report = (step: number, accuracy: number, completions: readonly string[]): EvalReport => ({
  step,
  accuracy,
  rewardMean: accuracy,
  prompts: 64,
  unscored: 0,
  seconds: 0.5,
  examples: completions.map((completion, i) => ({ id: `p${i}`, prompt: `0${i}+0${i}=`, completion, reward: i })),
})
const summary: RunSummary = {
  runDir: "/projects/sums/runs/quickstart-2026-01-31-12-00-00",
  stopped: "steps",
  steps: 60,
  trainSeconds: 65,
  seconds: 80,
  secondsToFirstStep: 6.5,
  evalBefore: report(0, 0.25, ["1\n2", "9"]),
  evalAfter: report(60, 0.875, ["0", "2"]),
  samplesTrained: 15_360,
  trainedTokens: 50_000,
  samplesPerSecond: 236.3,
  trainedTokensPerSecond: 769,
  weightSyncs: [1, 2].map((version) => ({ version, seconds: version / 10, pausedSeconds: 0.01, bytes: 4_000_000 })),
  ageP50: 1,
  ageP95: 2,
  ageMax: 3,
  bottleneck: { part: "weightSync", share: 0.62, advice: "Choose a faster transfer." },
  dropped: { stale: 2, no_samples: 0, equal_rewards: 5 },
  checkpoint: "/projects/sums/runs/quickstart-2026-01-31-12-00-00/checkpoints/step-000060",
  peakRssBytes: 1_234_000_000,
}
const text = (changes: Partial<RunSummary> = {}): string =>
  summaryText({ ...summary, ...changes }, { paint: painter(false), program: "bun run cohort", show: (path) => path.replace("/projects/sums/", "") })

test("a whole summary", () => {
  expect(text()).toBe(`
60 steps in 1 min 05 s of training (all steps done)

  accuracy        25.0% → 87.5% on 64 held-out prompts
  speed           236.3 samples/s, 769 trained tokens/s
  weight syncs    2, mean 0.15 s, longest 0.20 s, 4.0 MB each
  trajectory age  p50 1.00, p95 2.00, max 3 steps
  dropped groups  7 (equal rewards 5, stale 2)
  time            1 min 20 s in all, 6.5 s until the first step was done
  bottleneck      weight sync, 62.0% of the last steps. Choose a faster transfer.
  peak memory     1.2 GB
  run folder      runs/quickstart-2026-01-31-12-00-00

  prompt   before        after
  00+00=   1\\n2 (0.00)   0 (0.00)
  01+01=   9 (1.00)      2 (1.00)

What next:
  bun run cohort serve runs/quickstart-2026-01-31-12-00-00/checkpoints/step-000060
  bun run cohort train --resume runs/quickstart-2026-01-31-12-00-00 --train.steps N
`)
})

test("an early end says what is missing instead of inventing it", () => {
  const early = text({ stopped: "interrupted", evalAfter: null, weightSyncs: [], ageP50: null, dropped: {}, checkpoint: null, secondsToFirstStep: null })
  expect(early).toContain("25.0% → not measured")
  expect(early).toContain("weight syncs    none")
  expect(early).toContain("trajectory age  not measured")
  expect(early).toContain("dropped groups  none")
  expect(early).toContain("No checkpoint was written.")
  expect(early).not.toContain("prompt   before")
  expect(text({ bottleneck: null })).not.toContain("bottleneck")
  expect(text({ evalBefore: null, evalAfter: null })).toContain("not measured: no evaluation prompts")
})

test("JSON has every figure, null for what was not measured", () => {
  const json = summaryJson({ ...summary, evalAfter: null })
  expect(json).toMatchObject({ accuracyBefore: 0.25, accuracyAfter: null, ageP95: 2, bottleneck: { part: "weightSync" }, dropped: summary.dropped, peakRssBytes: 1_234_000_000, stopped: "steps" })
  expect(json.weightSyncs.map(({ seconds }) => seconds)).toEqual([0.1, 0.2])
  expect(JSON.stringify(json)).not.toContain("\n")
})
