// What make.py wrote for a model, and the same figures computed by @cohort/model.
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { adamW, createPolicy, defaultAdamW, globalNorm, hiddenStates, logits, type LoraSettings, nextTokens, openFolderValues, type Parameters, type Policy, readModelConfig, targetLogProbs, type Weights } from "@cohort/model"
import type { CompileMode, TensorRuntime } from "@cohort/tensor"
import { add, dispose, div, minimum, mul, neg, scalar, sum, type Tensor, tensor, valueAndGrads } from "@tensorflow/tfjs-core"

export interface Golden {
  readonly ids: readonly (readonly number[])[]
  readonly trained: readonly (readonly number[])[]
  readonly learningRate: number
  readonly weightDecay: number
  /** Of row 0 at its first and last position, and of row 1 at its last real one. */
  readonly logits: readonly (readonly number[])[]
  readonly logProbs: readonly (readonly number[])[]
  readonly loss: number
  readonly gradientNorm: number
  readonly gradientNorms: Readonly<Record<string, number>>
  readonly after: Readonly<Record<string, readonly number[]>>
  readonly updateNorms: Readonly<Record<string, number>>
}

export const cases = join(import.meta.dir, "cases")

export function readGolden(name: string): Golden {
  return JSON.parse(readFileSync(join(cases, name, "golden.json"), "utf8")) as Golden
}

/** The model of a case with its weights resident. */
export function openCase(runtime: TensorRuntime, folder: string): Policy {
  const config = readModelConfig(folder)
  const weights = openFolderValues(folder, config)
  try {
    return createPolicy(runtime, config, weights.values)
  } finally {
    weights.close()
  }
}

export interface Computed {
  readonly logits_NV: Float32Array
  readonly logProbs_N: Float32Array
  readonly loss: number
  readonly gradientNorm: number
  /** By checkpoint name. */
  readonly gradients: ReadonlyMap<string, Float32Array>
}

/** Forward, backward and one clipped AdamW step on the rows of the golden; the policy is changed, or the adapter alone where there is one. */
export function trainOnce(runtime: TensorRuntime, policy: Policy, golden: Golden, mode: CompileMode, adapter?: { readonly parameters: Parameters; readonly lora: LoraSettings }): Computed {
  const { specs, variables } = adapter?.parameters ?? policy
  const config = adapter === undefined ? policy.config : { ...policy.config, lora: adapter.lora }
  const shape: [number, number] = [golden.ids.length, golden.ids[0]!.length]
  const step = runtime.compile((ids, positions, trained, learningRate, correction1, correction2) => {
    const one = scalar(1)
    const predict = (weights: Weights): Tensor => logits(config, weights, hiddenStates(config, weights, ids!, positions!))
    const before = { ...policy.weights(), ...adapter?.parameters.weights() }
    const rows = predict(before)
    const loss = valueAndGrads((...values: Tensor[]) => {
      const weights = { ...before, ...Object.fromEntries(specs.map((spec, i) => [spec.name, values[i]!])) }
      return neg(div(sum(mul(targetLogProbs(runtime.raw, predict(weights), nextTokens(ids!), one), trained!)), sum(trained!)))
    })
    const { value, grads } = loss(specs.map((spec) => before[spec.name]!))
    const norm = globalNorm(grads)
    const scale = minimum(1, div(1, add(norm, 1e-6)))
    const scalars = { learningRate: learningRate!, correction1: correction1!, correction2: correction2! }
    const settings = { ...defaultAdamW, weightDecay: golden.weightDecay }
    specs.forEach((spec, i) => {
      const zero = mul(grads[i]!, 0)
      variables[i]!.assign(adamW(before[spec.name]!, mul(grads[i]!, scale), zero, zero, settings, scalars, spec.decay).parameter)
    })
    return [rows, targetLogProbs(runtime.raw, rows, nextTokens(ids!), one), value, norm, ...grads]
  }, { name: "parity step", mode })
  const inputs = [
    tensor(golden.ids.flat(), shape, "int32"),
    tensor(golden.ids.flatMap((row) => row.map((_, i) => i)), shape, "int32"),
    tensor(golden.trained.flat(), undefined, "float32"),
    scalar(golden.learningRate),
    scalar(1 - defaultAdamW.beta1),
    scalar(1 - defaultAdamW.beta2),
  ]
  const outputs = step(...inputs)
  const [rows, logProbs, value, norm, ...grads] = outputs.map((output) => output.dataSync() as Float32Array)
  dispose([...inputs, ...outputs])
  step.dispose()
  const gradients = new Map<string, Float32Array>()
  specs.forEach((spec, i) => {
    let begin = 0
    for (const part of spec.parts) {
      const size = part.shape.reduce((product, dim) => product * dim, 1)
      gradients.set(part.checkpointName, grads[i]!.subarray(begin, begin + size))
      begin += size
    }
  })
  return { logits_NV: rows!, logProbs_N: logProbs!, loss: value![0]!, gradientNorm: norm![0]!, gradients }
}
