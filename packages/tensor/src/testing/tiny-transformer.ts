// A transformer of one layer and its training step, small enough for plain JavaScript: what the backends must agree on.
// Shapes: B rows, T tokens, D width, H heads of E, V words.
import { add, addN, concat, fill, gather, grads, logSoftmax, matMul, mean, mul, neg, oneHot, reshape, rsqrt, sigmoid, slice, softmax, square, sub, sum, type Tensor, tensor, transpose, where } from "@tensorflow/tfjs-core"
import type { TensorRuntime, VariableType } from "../runtime.ts"
import type { CompileMode } from "../compile.ts"
import type { Variable } from "../variable.ts"

const [B, T, D, H, V, F] = [2, 6, 8, 2, 11, 16]
const E = D / H

const shapes: Readonly<Record<string, readonly number[]>> = { embedding: [V, D], norm1: [D], qkv: [D, 3 * D], out: [D, D], norm2: [D], gate: [D, F], up: [D, F], down: [F, D], norm3: [D] }

/** A fixed sequence in [-scale, scale). */
function sequence(count: number, from: number, scale: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => scale * (2 * (((i + from) * 0.6180339887) % 1) - 1))
}

export interface TinyTrainer {
  /** Runs one step on batch `index` and returns the loss. */
  step(index: number): number
  weights(): Record<string, readonly number[]>
  dispose(): void
}

export function tinyTrainer(runtime: TensorRuntime, mode: CompileMode, type: VariableType = "f32"): TinyTrainer {
  const names = Object.keys(shapes)
  const variables = names.map((name, i): Variable => {
    const shape = shapes[name]!
    const count = shape.reduce((a, b) => a * b, 1)
    const initial = shape.length === 1 ? new Float32Array(count).fill(1) : sequence(count, 31 * i + 1, 0.4)
    return runtime.variable(`tiny.${name}`, shape, "f32", initial)
  })
  const moments = names.map((name) => runtime.variable(`tiny.m.${name}`, shapes[name]!, type, type === "bf16" ? new Uint16Array(shapes[name]!.reduce((a, b) => a * b, 1)) : new Float32Array(shapes[name]!.reduce((a, b) => a * b, 1))))
  const train = runtime.compile(
    (ids) => {
      const values = variables.map((variable) => variable.value())
      const gradients = grads((...weights: Tensor[]) => loss(Object.fromEntries(names.map((name, i) => [name, weights[i]!])), ids!))(values)
      for (const [i, gradient] of gradients.entries()) {
        const before = moments[i]!.value()
        const raw = runtime.raw
        const momentum = add(mul(type === "bf16" && raw !== undefined ? raw.cast(before, 1) : before, 0.9), gradient)
        moments[i]!.assign(type === "bf16" && raw !== undefined ? raw.cast(momentum, 14) : momentum)
        variables[i]!.assign(sub(values[i]!, mul(momentum, 0.05)))
      }
      return [loss(Object.fromEntries(names.map((name, i) => [name, values[i]!])), ids!)]
    },
    { name: `tiny train step ${mode}`, mode },
  )
  return {
    step(index) {
      const ids = tensor(Int32Array.from({ length: B * (T + 1) }, (_, i) => (i * 7 + index * 3) % V), [B, T + 1], "int32")
      const [out] = train(ids)
      const value = out!.dataSync()[0]!
      out!.dispose()
      ids.dispose()
      return value
    },
    weights: () => Object.fromEntries(names.map((name, i) => [name, [...(variables[i]!.data() as Float32Array)]])),
    dispose() {
      train.dispose()
      for (const variable of [...variables, ...moments]) variable.dispose()
    },
  }
}

function rmsNorm(x: Tensor, gain: Tensor): Tensor {
  return mul(mul(x, rsqrt(add(mean(square(x), -1, true), 1e-5))), gain)
}

function loss(w: Record<string, Tensor>, ids_BT: Tensor): Tensor {
  const inputs = slice(ids_BT, [0, 0], [B, T])
  const labels = reshape(slice(ids_BT, [0, 1], [B, T]), [B * T])
  let x_BTD = gather(w["embedding"]!, inputs)
  const qkv = matMul(rmsNorm(x_BTD, w["norm1"]!), w["qkv"]!)
  const heads = (k: number): Tensor => transpose(reshape(slice(qkv, [0, 0, k * D], [B, T, D]), [B, T, H, E]), [0, 2, 1, 3])
  const half = (x: Tensor, from: number): Tensor => slice(x, [0, 0, 0, from], [B, H, T, E / 2])
  const turned = (x: Tensor): Tensor => add(x, mul(concat([neg(half(x, E / 2)), half(x, 0)], 3), 0.1))
  const scores = mul(matMul(turned(heads(0)), turned(heads(1)), false, true), 1 / Math.sqrt(E))
  const causal = tensor(Uint8Array.from({ length: T * T }, (_, i) => (i % T <= Math.floor(i / T) ? 1 : 0)), [T, T], "bool")
  const attention = matMul(softmax(where(causal, scores, fill([1], -1e9))), heads(2))
  x_BTD = add(x_BTD, matMul(reshape(transpose(attention, [0, 2, 1, 3]), [B, T, D]), w["out"]!))
  const h = rmsNorm(x_BTD, w["norm2"]!)
  const gate = matMul(h, w["gate"]!)
  x_BTD = addN([x_BTD, matMul(mul(mul(gate, sigmoid(gate)), matMul(h, w["up"]!)), w["down"]!)])
  const logits = matMul(rmsNorm(x_BTD, w["norm3"]!), w["embedding"]!, false, true)
  const logProbs = logSoftmax(reshape(logits, [B * T, V]))
  return neg(mean(sum(mul(logProbs, oneHot(labels, V)), 1)))
}
