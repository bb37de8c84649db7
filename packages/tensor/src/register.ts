// Registers the backend, and replaces those of tfjs's node kernels that would hurt.
import "@tensorflow/tfjs-core/dist/register_all_gradients"
import { env, type KernelFunc, registerBackend, registerKernel, type Tensor, tidy, unregisterKernel } from "@tensorflow/tfjs-core"
import type { MatMulPrecision } from "./compile.ts"
import { DType, sizeOf } from "./dtype.ts"
import { attr, type RawOps } from "./raw.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"

const backendName = "tensorflow"

export function registerTensorflow(backend: TensorflowBackend, raw: RawOps, precision: () => MatMulPrecision): void {
  env().set("PROD", true)
  registerBackend(backendName, () => backend as never, 3)
  // tfjs's own kernel reads the indices back to check them, which is a sync per embedding look-up and impossible in a trace.
  replace("GatherV2", ({ inputs, attrs }) => {
    const { x, indices } = inputs as { x: Tensor; indices: Tensor }
    const { axis, batchDims } = attrs as unknown as { axis: number; batchDims: number }
    return raw.gather(x, indices, axis, batchDims)
  })
  // Left out of automatic clusters: XLA sums a row one number after the other on one core, the op of its own is vectorised and uses all.
  replace("Softmax", ({ inputs }) => {
    const { logits } = inputs as { logits: Tensor }
    return raw.one("Softmax", [logits], [attr.type("T", raw.dtypeOf(logits)), attr.bool("_XlaCompile", false)])
  })
  replace("BatchMatMul", ({ inputs, attrs }) => {
    const { a, b } = inputs as { a: Tensor; b: Tensor }
    const { transposeA, transposeB } = attrs as unknown as { transposeA: boolean; transposeB: boolean }
    return tidy(() => matMul(raw, precision(), a, b, transposeA, transposeB))
  })
}

function replace(kernelName: string, kernelFunc: KernelFunc): void {
  unregisterKernel(kernelName, backendName)
  registerKernel({ kernelName, backendName, kernelFunc })
}

/** The plain MatMul op has the better oneDNN path, so products that are one matrix product underneath take it. */
function matMul(raw: RawOps, precision: MatMulPrecision, a: Tensor, b: Tensor, transposeA: boolean, transposeB: boolean): Tensor {
  const half = precision === "bf16"
  const left = half ? raw.cast(a, DType.bfloat16) : a
  const right = half ? raw.cast(b, DType.bfloat16) : b
  const widen = (x: Tensor): Tensor => raw.cast(x, DType.float32)
  if (a.rank === 2 && b.rank === 2) return widen(raw.matMul(left, right, transposeA, transposeB))
  if (b.rank === 2 && !transposeA) {
    const rows = raw.reshape(left, [sizeOf(a.shape.slice(0, -1)), a.shape.at(-1)!])
    const product = widen(raw.matMul(rows, right, false, transposeB))
    return raw.reshape(product, [...a.shape.slice(0, -1), product.shape[1]!])
  }
  if (a.rank === 3 && b.rank === 3 && a.shape[0] === 1 && b.shape[0] === 1) {
    const product = widen(raw.matMul(raw.reshape(left, a.shape.slice(1)), raw.reshape(right, b.shape.slice(1)), transposeA, transposeB))
    return raw.reshape(product, [1, ...product.shape])
  }
  return widen(raw.batchMatMul(left, right, transposeA, transposeB))
}
