// The ops that models are made of, with known answers: stock backends give silent wrong answers in places (a fused bias added several
// times, sums that stop counting, a matMul gradient of the wrong shape), and a backend that does so must not train anything.
import {
  add, argMax, cast, concat, cumsum, exp, fill, fused, gather, grads, log, logSoftmax, matMul, max, maximum, mean, mul, neg, oneHot, pad, range, reshape, rsqrt, sigmoid, slice, softmax,
  split, square, stack, sub, sum, type Tensor, tensor, tidy, transpose, where, less, type Tensor2D,
} from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import type { TensorRuntime } from "./runtime.ts"

interface Check {
  readonly name: string
  run(): Tensor
  readonly expected: readonly number[]
}

const ints = (values: number[], shape: number[] = [values.length]): Tensor => tensor(values, shape, "int32")
const ramp = (...shape: number[]): Tensor => reshape(range(0, shape.reduce((a, b) => a * b, 1), 1, "float32"), shape)
const matrix = (shape: [number, number], value: number): Tensor2D => fill(shape, value) as Tensor2D
const gradient = (fn: (x: Tensor) => Tensor, x: Tensor): Tensor => grads((...inputs: Tensor[]) => sum(fn(inputs[0]!)))([x])[0]!

const checks: readonly Check[] = [
  { name: "matMul", run: () => matMul(ramp(2, 3), ramp(3, 2)), expected: [10, 13, 28, 40] },
  { name: "matMul with an inner dimension of 64 and a transpose", run: () => matMul(matrix([2, 64], 1), matrix([2, 64], 0.5), false, true), expected: [32, 32, 32, 32] },
  { name: "matMul with both transposes", run: () => matMul(ramp(3, 2), ramp(2, 3), true, true), expected: [10, 28, 13, 40] },
  { name: "matMul of a batch and a matrix", run: () => matMul(ramp(2, 1, 2), ramp(2, 2)), expected: [2, 3, 6, 11] },
  {
    name: "matMul whose batches broadcast",
    run: () => matMul(ramp(2, 1, 1, 2), ramp(1, 3, 2, 1)),
    expected: [1, 3, 5, 3, 13, 23],
  },
  {
    name: "fused matMul with an inner dimension of 100 and a bias",
    run: () => fused.matMul({ a: matrix([1, 100], 1), b: matrix([1, 100], 1), transposeB: true, bias: tensor([3]), activation: "relu" }),
    expected: [103],
  },
  { name: "gradient of matMul", run: () => gradient((w) => square(matMul(tensor([1, 2, 3, 4], [2, 2]), w)), tensor([1, 0, 0, 1], [2, 2])), expected: [20, 28, 28, 40] },
  { name: "gradient of a matrix used by a batch", run: () => gradient((w) => matMul(ramp(2, 2, 2), w), ramp(2, 1)), expected: [12, 16] },
  { name: "gather", run: () => gather(ramp(3, 2), ints([2, 0])), expected: [4, 5, 0, 1] },
  { name: "gradient of gather with a repeated index", run: () => gradient((table) => mul(gather(table, ints([1, 1, 0])), 2), tensor([1, 2, 3], [3, 1])), expected: [2, 4, 0] },
  { name: "softmax", run: () => softmax(tensor([0, Math.log(3), 5, 5], [2, 2])), expected: [0.25, 0.75, 0.5, 0.5] },
  { name: "logSoftmax of large logits", run: () => logSoftmax(tensor([1000, 1000, 0], [1, 3])), expected: [-Math.LN2, -Math.LN2, -1000 - Math.LN2] },
  { name: "gradient of logSoftmax", run: () => gradient((x) => mul(logSoftmax(x), tensor([1, 0], [1, 2])), tensor([0, 0], [1, 2])), expected: [0.5, -0.5] },
  { name: "rms norm", run: () => rmsNorm(tensor([3, 4, 6, 8], [2, 2])), expected: [3, 4, 3, 4].map((x) => x / Math.sqrt(12.5)) },
  { name: "gradient of rms norm", run: () => gradient((x) => mul(rmsNorm(x), tensor([1, 0], [1, 2])), tensor([3, 4], [1, 2])), expected: [0.64, -0.48].map((x) => x / Math.sqrt(12.5)) },
  { name: "gradient of slice and concat", run: () => gradient((x) => mul(concat([neg(slice(x, [0, 1], [1, 1])), slice(x, [0, 0], [1, 1])], 1), ramp(1, 2)), ramp(1, 2)), expected: [1, 0] },
  { name: "gradient of transpose", run: () => gradient((x) => mul(transpose(x, [1, 0, 2]), ramp(2, 2, 1)), ramp(2, 2, 1)), expected: [0, 2, 1, 3] },
  { name: "split, stack and pad", run: () => pad(stack(split(ramp(4), 2)), [[0, 0], [1, 0]]), expected: [0, 0, 1, 0, 2, 3] },
  { name: "where, less and its gradient", run: () => gradient((x) => where(less(ramp(4), 2), mul(x, 3), mul(x, 5)), ramp(4)), expected: [3, 3, 5, 5] },
  { name: "cumsum along the first axis and its gradient", run: () => gradient((x) => mul(cumsum(x, 0), ramp(3, 1)), ramp(3, 1)), expected: [3, 3, 2] },
  { name: "max, argMax and oneHot", run: () => concat([max(ramp(2, 3), 1), cast(argMax(ramp(2, 3), 1), "float32"), reshape(cast(oneHot(ints([1]), 3), "float32"), [3])]), expected: [2, 5, 2, 2, 0, 1, 0] },
  { name: "exp, log, sigmoid and maximum", run: () => concat([exp(tensor([0, 1])), log(tensor([1, Math.E])), sigmoid(tensor([0])), maximum(tensor([-1]), tensor([2]))]), expected: [1, Math.E, 0, 1, 0.5, 2] },
  { name: "sum of 262144 elements", run: () => reshape(sum(fill([262144], 0.1)), [1]), expected: [26214.4] },
  { name: "mean of 262144 elements along the first axis", run: () => mean(fill([262144, 1], 0.1), 0), expected: [0.1] },
]

function rmsNorm(x: Tensor): Tensor {
  return mul(x, rsqrt(add(mean(square(x), -1, true), 1e-12)))
}

const tolerance = 1e-4

/** @throws CohortError `runtime_unavailable` naming the op that is wrong, with both answers */
export async function selfCheck(runtime: TensorRuntime): Promise<void> {
  for (const check of checks) compare(runtime, check.name, [...tidy(() => check.run().dataSync())], check.expected)
  if (runtime.info.backend !== "tensorflow") return
  // The same through a trace: one function, so that starting stays quick.
  const compiled = runtime.compile((x) => [gradient((v) => square(sub(softmax(matMul(v, ramp(2, 2))), 0.5)), x!)], { name: "self_check" })
  try {
    const values = tidy(() => [...compiled(ramp(1, 2))[0]!.dataSync()])
    const p = 1 / (1 + Math.exp(-1))
    const slope = 4 * (p - 0.5) * p * (1 - p)
    compare(runtime, "a compiled gradient", values, [slope, slope])
  } finally {
    compiled.dispose()
  }
}

function compare(runtime: TensorRuntime, name: string, values: readonly number[], expected: readonly number[]): void {
  const same = values.length === expected.length && values.every((value, i) => Math.abs(value - expected[i]!) <= tolerance * Math.max(1, Math.abs(expected[i]!)))
  if (same) return
  throw new CohortError("runtime_unavailable", `${runtime.info.backend} computes ${name} wrong: [${values.join(", ")}] instead of [${expected.join(", ")}]`)
}
