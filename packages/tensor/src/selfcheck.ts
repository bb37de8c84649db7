// A few products, reductions and gradients with known answers: stock backends give silent wrong answers in places (a fused bias
// added several times, a matMul gradient of the wrong shape), and a backend that does so must not train anything.
import { grads, gather, matMul, mul, softmax, square, sum, type Tensor, tensor, type Tensor2D } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import type { TensorRuntime } from "./runtime.ts"

interface Check {
  readonly name: string
  run(): Tensor
  readonly expected: readonly number[]
}

const checks: readonly Check[] = [
  {
    name: "matMul with an inner dimension of 64 and a transpose",
    run: () => matMul(tensor(new Float32Array(128).fill(1), [2, 64]) as Tensor2D, tensor(new Float32Array(128).fill(0.5), [2, 64]) as Tensor2D, false, true),
    expected: [32, 32, 32, 32],
  },
  {
    name: "gradient of matMul",
    run: () => {
      const x = tensor([1, 2, 3, 4], [2, 2]) as Tensor2D
      return grads((w: Tensor) => sum(square(matMul(x, w as Tensor2D))))([tensor([1, 0, 0, 1], [2, 2])])[0]!
    },
    expected: [20, 28, 28, 40],
  },
  {
    name: "gradient of gather with a repeated index",
    run: () => grads((table: Tensor) => sum(mul(gather(table, tensor([1, 1, 0], [3], "int32")), 2)))([tensor([1, 2, 3], [3, 1])])[0]!,
    expected: [2, 4, 0],
  },
  { name: "softmax", run: () => softmax(tensor([0, 0, 0, 0], [1, 4])), expected: [0.25, 0.25, 0.25, 0.25] },
]

/** @throws CohortError `runtime_unavailable` naming the op that is wrong, with both answers */
export async function selfCheck(runtime: TensorRuntime): Promise<void> {
  for (const check of checks) {
    const compiled = runtime.compile(() => [check.run()], { name: check.name, mode: "graph" })
    const [result] = compiled()
    const values = [...result!.dataSync()]
    result!.dispose()
    compiled.dispose()
    if (values.length !== check.expected.length || values.some((value, i) => !(Math.abs(value - check.expected[i]!) < 1e-4)))
      throw new CohortError("runtime_unavailable", `${runtime.info.backend} computes ${check.name} wrong: [${values.join(", ")}] instead of [${check.expected.join(", ")}]`)
  }
}
