// A model whose parameters are resident in the tensor runtime, in the dtype it computes with.
import type { Tensor } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { type HostArray, toBfloat16, type TensorRuntime, type Variable } from "@cohort/tensor"
import type { ModelConfig } from "./config.ts"
import type { Weights } from "./forward.ts"
import { parameterCount, parameterLayout, type ParameterSpec } from "./layout.ts"
import { normal, uniform } from "./random.ts"

export interface Policy {
  readonly config: ModelConfig
  readonly specs: readonly ParameterSpec[]
  readonly parameters: number
  /** Resident variables in the order of `specs`. */
  readonly variables: readonly Variable[]
  /** Current values by name; inside a trace, the values at this point. */
  weights(): Weights
  /** float32 values of one tensor of the checkpoint. */
  read(checkpointName: string): Float32Array
  /** Replaces every parameter; `values` is asked once per checkpoint tensor. */
  load(values: (checkpointName: string, shape: readonly number[]) => Float32Array): void
  dispose(): void
}

/**
 * Makes the resident parameters of a model.
 * @param values float32 values of each checkpoint tensor: from a folder, or {@link randomValues}
 * @param type `bf16` keeps matrices in half the memory, for inference; norms and biases stay float32
 */
export function createPolicy(runtime: TensorRuntime, config: ModelConfig, values: (checkpointName: string, shape: readonly number[]) => Float32Array, type: "f32" | "bf16" = "f32"): Policy {
  const specs = parameterLayout(config)
  const stored = specs.map((spec) => (spec.shape.length === 2 ? type : "f32"))
  const host = (spec: ParameterSpec, half: boolean, source: typeof values): HostArray => {
    const joined = join(spec, source)
    return half && runtime.raw !== undefined ? toBfloat16(joined) : joined
  }
  const variables = specs.map((spec, i) => runtime.variable(spec.name, spec.shape, stored[i]!, host(spec, stored[i] === "bf16", values)))
  const where = new Map<string, { index: number; begin: number; size: number }>()
  specs.forEach((spec, index) => {
    let begin = 0
    for (const part of spec.parts) {
      const size = part.shape.reduce((product, dim) => product * dim, 1)
      where.set(part.checkpointName, { index, begin, size })
      begin += size
    }
  })
  return {
    config,
    specs,
    parameters: parameterCount(specs),
    variables,
    weights: () => Object.fromEntries(specs.map((spec, i) => [spec.name, variables[i]!.value()] as [string, Tensor])),
    read(checkpointName) {
      const place = where.get(checkpointName)
      if (place === undefined) throw new CohortError("model_invalid", `the model has no tensor ${checkpointName}`)
      const data = variables[place.index]!.data()
      if (!(data instanceof Float32Array)) throw new CohortError("internal", `${checkpointName} is kept as bf16 for inference and is not read back`)
      return data.subarray(place.begin, place.begin + place.size)
    },
    load(source) {
      specs.forEach((spec, i) => variables[i]!.load(host(spec, stored[i] === "bf16", source)))
    },
    dispose() {
      for (const variable of variables) variable.dispose()
    },
  }
}

function join(spec: ParameterSpec, values: (checkpointName: string, shape: readonly number[]) => Float32Array): Float32Array {
  if (spec.parts.length === 1) return values(spec.parts[0]!.checkpointName, spec.parts[0]!.shape)
  const out = new Float32Array(spec.shape.reduce((product, dim) => product * dim, 1))
  let begin = 0
  for (const part of spec.parts) {
    const piece = values(part.checkpointName, part.shape)
    out.set(piece, begin)
    begin += piece.length
  }
  return out
}

/** Initial values as transformers makes them: normal with `initializer_range`, norms one, biases zero; the same for a seed on every machine. */
export function randomValues(config: ModelConfig, seed: number): (checkpointName: string, shape: readonly number[]) => Float32Array {
  const init = new Map(parameterLayout(config).flatMap((spec) => spec.parts.map((part) => [part.checkpointName, spec.init] as const)))
  return (checkpointName, shape) => {
    const out = new Float32Array(shape.reduce((product, dim) => product * dim, 1))
    const kind = init.get(checkpointName)
    if (kind === "ones") return out.fill(1)
    if (kind === "zeros") return out
    const next = normal(uniform(seed ^ Bun.hash.crc32(checkpointName)), config.initializerRange)
    for (let i = 0; i < out.length; i++) out[i] = next()
    return out
  }
}

