// What the cpu and the wasm backend of tfjs get wrong alike.
import { broadcast_util, broadcastTo, getKernel, type KernelFunc, matMul, registerKernel, type Tensor, tidy, unregisterKernel } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { sizeOf } from "./dtype.ts"

/** Puts a function around a kernel, keeping its set-up. */
export function wrapKernel(kernelName: string, backendName: string, make: (original: KernelFunc) => KernelFunc): void {
  const config = getKernel(kernelName, backendName)
  if (config === undefined) throw new CohortError("runtime_unavailable", `tfjs's ${backendName} backend has no ${kernelName} kernel`)
  unregisterKernel(kernelName, backendName)
  registerKernel({ ...config, kernelFunc: make(config.kernelFunc) })
}

/**
 * A product whose batches broadcast ([2, 1, M, K] by [1, 3, K, N]): both backends count through each operand's batches in turn, which
 * pairs them wrongly. Here the batches are made equal first.
 */
export function repairBroadcastProducts(backendName: string): void {
  wrapKernel("BatchMatMul", backendName, (original) => (call) => {
    const { a, b } = call.inputs as { a: Tensor; b: Tensor }
    const [batchA, batchB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)]
    if (batchA.join() === batchB.join() || sizeOf(batchA) === 1 || sizeOf(batchB) === 1) return original(call)
    const batch = broadcast_util.assertAndGetBroadcastShape(batchA, batchB)
    const whole = (x: Tensor): Tensor => broadcastTo(x, [...batch, ...x.shape.slice(-2)])
    const { transposeA, transposeB } = call.attrs as unknown as { transposeA: boolean; transposeB: boolean }
    return tidy(() => matMul(whole(a), whole(b), transposeA, transposeB))
  })
}
