import { expect, test } from "bun:test"
import { add, div, exp, logSoftmax, matMul, memory, mul, neg, oneHot, scalar, sum, type Tensor, tensor1d, tensor2d, tidy, valueAndGrads } from "@tensorflow/tfjs-core"
import { openRuntime } from "@cohort/tensor"
import { headLogProbs } from "./head-log-probs.ts"
import { normal, uniform } from "./random.ts"

await openRuntime({ backend: "cpu" })
const [tokens, vocabulary, width] = [7, 11, 5]
const next = normal(uniform(4), 1)
const draw = (size: number): Float32Array => Float32Array.from({ length: size }, next)
const [hidden, head, weights, slopes] = [draw(tokens * width), draw(vocabulary * width), draw(tokens), draw(tokens)]
const targets = Int32Array.from({ length: tokens }, (_, index) => (index * 5) % vocabulary)

/** A loss that weighs log-probs and entropies by fixed numbers, and its gradients. */
function run(of: (hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor) => readonly [Tensor, Tensor], entropyWeight: number): number[][] {
  return tidy(() => {
    const { value, grads } = valueAndGrads((h: Tensor, w: Tensor) => {
      const [logProbs, entropies] = of(h, w, tensor1d(targets, "int32"))
      return add(sum(mul(logProbs, tensor1d(weights))), mul(sum(mul(entropies, tensor1d(slopes))), entropyWeight)) as ReturnType<typeof scalar>
    })([tensor2d(hidden, [tokens, width]), tensor2d(head, [vocabulary, width])])
    return [value, ...grads].map((tensor) => [...tensor.dataSync()])
  })
}

const whole = (h: Tensor, w: Tensor, targets_N: Tensor): readonly [Tensor, Tensor] => {
  const logP = logSoftmax(div(matMul(h as ReturnType<typeof tensor2d>, w as ReturnType<typeof tensor2d>, false, true), scalar(0.7)))
  return [sum(mul(logP, oneHot(targets_N as ReturnType<typeof tensor1d>, vocabulary)), 1), neg(sum(mul(exp(logP), logP), 1))]
}

test.each([1, 3, 7, 256])("chunks of %d tokens give the value and gradients of the whole", (chunkTokens) => {
  for (const entropyWeight of [0, 1]) {
    const chunked = run((h, w, targets_N) => {
      const { logProbs_N, entropies_N } = headLogProbs(h, w, targets_N, scalar(0.7), { chunkTokens, entropyGradient: entropyWeight > 0 })
      return [logProbs_N, entropies_N]
    }, entropyWeight)
    for (const [index, expected] of run(whole, entropyWeight).entries())
      for (const [at, value] of expected.entries()) expect(Math.abs(chunked[index]![at]! - value)).toBeLessThan(2e-5 * Math.max(1, Math.abs(value)))
  }
})

test("a token without a finite state leaves the others alone, and nothing is left behind", () => {
  const before = memory().numTensors
  const bad = Float32Array.from(hidden)
  bad.fill(Number.NaN, 0, width)
  const logProbs = tidy(() => [...headLogProbs(tensor2d(bad, [tokens, width]), tensor2d(head, [vocabulary, width]), tensor1d(targets, "int32"), scalar(1), { chunkTokens: 2 }).logProbs_N.dataSync()])
  expect(logProbs.map(Number.isNaN)).toEqual([true, ...Array.from({ length: tokens - 1 }, () => false)])
  expect(memory().numTensors).toBe(before)
})
