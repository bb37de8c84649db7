// A model whose parameters are resident in the tensor runtime, in the dtype it computes with.
import type { Tensor } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { type HostArray, toBfloat16, type TensorRuntime, type Variable } from "@cohort/tensor"
import type { ModelConfig } from "./config.ts"
import type { Weights } from "./forward.ts"
import { loraLayout, type LoraSettings } from "./lora.ts"
import { parameterCount, parameterLayout, type ParameterSpec } from "./layout.ts"
import { normal, uniform } from "./random.ts"

/** float32 values of a checkpoint tensor, asked for by name and shape. */
export type ValueSource = (checkpointName: string, shape: readonly number[]) => Float32Array

/** bf16 words of a checkpoint tensor where the file holds such, undefined elsewhere. */
export type WordSource = (checkpointName: string) => Uint16Array | undefined

/** Parameters that are resident together: a model's, or an adapter's. */
export interface Parameters {
  readonly specs: readonly ParameterSpec[]
  readonly parameters: number
  /** Resident variables in the order of `specs`. */
  readonly variables: readonly Variable[]
  /** Current values by name; inside a trace, the values at this point. */
  weights(): Weights
  /** float32 values of one tensor of its file. */
  read(checkpointName: string): Float32Array
  /** Replaces every parameter; one of both is asked for each tensor of the file, `words` first where the parameter is kept as bf16. */
  load(values: ValueSource, words?: WordSource): void
  dispose(): void
}

export interface Policy extends Parameters {
  readonly config: ModelConfig
}

/**
 * Makes the resident parameters of a model.
 * @throws CohortError `model_invalid` naming a tensor whose values do not fill its shape
 * @param values float32 values of each checkpoint tensor: from a folder, or {@link randomValues}
 * @param type `bf16` keeps matrices in half the memory, for inference; norms and biases stay float32
 * @param words spares widening and rounding what the file has as bf16
 * @example
 * const policy = createPolicy(runtime, config, randomValues(config, 0))
 */
export function createPolicy(runtime: TensorRuntime, config: ModelConfig, values: ValueSource, type: "f32" | "bf16" = "f32", words?: WordSource): Policy {
  return { config, ...createParameters(runtime, parameterLayout(config), values, type, words) }
}

/**
 * Makes the resident parameters of an adapter beside a policy: float32, for training.
 * @throws CohortError `model_invalid` naming a tensor whose values do not fill its shape
 * @example
 * const adapter = createAdapter(runtime, config, lora, initialValues(loraLayout(config, lora), 0))
 * const weights = { ...policy.weights(), ...adapter.weights() } // with { ...config, lora } the forward pass uses it
 */
export function createAdapter(runtime: TensorRuntime, config: ModelConfig, lora: LoraSettings, values: ValueSource): Parameters {
  return createParameters(runtime, loraLayout(config, lora), values, "f32")
}

function createParameters(runtime: TensorRuntime, specs: readonly ParameterSpec[], values: ValueSource, type: "f32" | "bf16", words?: WordSource): Parameters {
  const stored = specs.map((spec) => (spec.shape.length === 2 ? type : "f32"))
  const host = (spec: ParameterSpec, half: boolean, values: ValueSource, words: WordSource | undefined): HostArray[] =>
    spec.parts.map((part) => {
      const given = half && runtime.raw !== undefined ? words?.(part.checkpointName) : undefined
      const piece = given ?? values(part.checkpointName, part.shape)
      const size = sizeOf(part.shape)
      if (piece.length !== size) throw new CohortError("model_invalid", `${part.checkpointName} has ${piece.length} values, its shape [${part.shape.join(", ")}] needs ${size}`)
      return half && runtime.raw !== undefined && piece instanceof Float32Array ? toBfloat16(piece) : piece
    })
  const variables = specs.map((spec, i) => runtime.variable(spec.name, spec.shape, stored[i]!, host(spec, stored[i] === "bf16", values, words)))
  const where = new Map<string, { index: number; begin: number; size: number }>()
  specs.forEach((spec, index) => {
    let begin = 0
    for (const part of spec.parts) {
      const size = sizeOf(part.shape)
      where.set(part.checkpointName, { index, begin, size })
      begin += size
    }
  })
  return {
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
    load(values, words) {
      specs.forEach((spec, i) => variables[i]!.load(host(spec, stored[i] === "bf16", values, words)))
    },
    dispose() {
      for (const variable of variables) variable.dispose()
    },
  }
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1)
}

/** Initial values as transformers makes them: normal with `initializer_range`, norms one, biases zero; the same for a seed on every machine. */
export function randomValues(config: ModelConfig, seed: number): ValueSource {
  return initialValues(parameterLayout(config), seed, config.initializerRange)
}

/** Initial values by the kind that each spec names. @param deviation of normal ones */
export function initialValues(specs: readonly ParameterSpec[], seed: number, deviation = 0.02): ValueSource {
  const init = new Map(specs.flatMap((spec) => spec.parts.map((part) => [part.checkpointName, spec.init] as const)))
  return (checkpointName, shape) => {
    const out = new Float32Array(sizeOf(shape))
    const kind = init.get(checkpointName)
    if (kind === "ones") return out.fill(1)
    if (kind === "zeros") return out
    const random = uniform(seed ^ Bun.hash.crc32(checkpointName))
    const bound = 1 / Math.sqrt(shape.at(-1)!)
    const next = kind === "kaiming" ? () => bound * (2 * random() - 1) : normal(random, deviation)
    for (let i = 0; i < out.length; i++) out[i] = next()
    return out
  }
}
