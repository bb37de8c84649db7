// Low-rank adapters (LoRA, arXiv:2106.09685): y = x W^T + scale x A^T B^T with W frozen, A and B trained. Matrices that read the same input are one
// resident matrix here, so their A's are one matrix too.
import { add, concat, matMul, mul, slice, type Tensor, zeros } from "@tensorflow/tfjs-core"
import { linear } from "./blocks.ts"
import type { ModelConfig } from "./config.ts"
import type { Weights } from "./forward.ts"
import { parameterLayout, type ParameterPart, type ParameterSpec } from "./layout.ts"

/** Linear layers of a decoder layer that may have an adapter, by their names in checkpoints. */
export const loraTargets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const
export type LoraTarget = (typeof loraTargets)[number]

export interface LoraSettings {
  readonly rank: number
  /** The adapter's part is scaled by alpha / rank. */
  readonly alpha: number
  readonly targets: readonly LoraTarget[]
  /** Scale by alpha / sqrt(rank) instead (arXiv:2312.03732). */
  readonly rankStabilized?: boolean
}

/** What the product of an adapter's matrices is multiplied by. */
export function loraScale({ alpha, rank, rankStabilized }: LoraSettings): number {
  return alpha / (rankStabilized === true ? Math.sqrt(rank) : rank)
}

const moduleOf = ({ checkpointName }: ParameterPart): string => checkpointName.replace(/\.weight$/, "")
const isTarget = ({ targets }: LoraSettings, part: ParameterPart): boolean => targets.some((target) => moduleOf(part).endsWith(`.${target}`))

/**
 * Parameters of an adapter, under the names that PEFT gives them: `<matrix>.lora_A` [targets * rank, in] and `<matrix>.lora_B` [rows of the targets, rank].
 *
 * @example
 * loraLayout(config, { rank: 8, alpha: 16, targets: ["q_proj", "v_proj"] })[0].parts[0].checkpointName
 * // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
 */
export function loraLayout(config: ModelConfig, lora: LoraSettings): readonly ParameterSpec[] {
  return parameterLayout(config).flatMap((spec): ParameterSpec[] => {
    const parts = spec.shape.length === 2 ? spec.parts.filter((part) => isTarget(lora, part)) : []
    if (parts.length === 0) return []
    const input = spec.shape[1]!
    const named = (part: ParameterPart, matrix: "A" | "B"): string => `base_model.model.${moduleOf(part)}.lora_${matrix}.weight`
    const rows = parts.reduce((sum, { shape }) => sum + shape[0]!, 0)
    return [
      { name: `${spec.name}.lora_A`, shape: [parts.length * lora.rank, input], parts: parts.map((part) => ({ checkpointName: named(part, "A"), shape: [lora.rank, input] })), decay: true, init: "kaiming" },
      { name: `${spec.name}.lora_B`, shape: [rows, lora.rank], parts: parts.map((part) => ({ checkpointName: named(part, "B"), shape: [part.shape[0]!, lora.rank] })), decay: true, init: "zeros" },
    ]
  })
}

/** Runs of rows of one resident matrix, in order; those with an adapter know where its part of A and B begins. */
interface Run {
  readonly rows: number
  readonly adapter?: { readonly first: number; readonly row: number }
}

function runsOf(config: ModelConfig, lora: LoraSettings, name: string): readonly Run[] {
  let first = 0
  let row = 0
  return layoutOf(config).get(name)!.parts.map((part): Run => {
    const rows = part.shape[0]!
    if (!isTarget(lora, part)) return { rows }
    const run = { rows, adapter: { first, row } }
    first += lora.rank
    row += rows
    return run
  })
}

/** A forward pass asks for each matrix of each layer. */
const layouts = new WeakMap<ModelConfig, ReadonlyMap<string, ParameterSpec>>()
function layoutOf(config: ModelConfig): ReadonlyMap<string, ParameterSpec> {
  const known = layouts.get(config) ?? new Map(parameterLayout(config).map((spec) => [spec.name, spec]))
  layouts.set(config, known)
  return known
}

/** x [N, in] times the resident matrix `name`, with its adapter where `config.lora` and the weights have one: [N, out]. */
export function projected(config: ModelConfig, weights: Weights, name: string, x: Tensor, bias?: Tensor): Tensor {
  const plain = linear(x, weights[name]!, bias)
  const a = weights[`${name}.lora_A`]
  const b = weights[`${name}.lora_B`]
  const { lora } = config
  if (lora === undefined || a === undefined || b === undefined) return plain
  const size = x.shape[0]!
  const inner = mul(matMul(x, a, false, true), loraScale(lora))
  const parts = runsOf(config, lora, name).map(({ rows, adapter }) =>
    adapter === undefined ? zeros([size, rows]) : matMul(slice(inner, [0, adapter.first], [size, lora.rank]), slice(b, [adapter.row, 0], [rows, lora.rank]), false, true),
  )
  return add(plain, parts.length === 1 ? parts[0]! : concat(parts, 1))
}

/** W + scale B A for the resident matrix `name`; W itself where it has no adapter. */
export function mergedMatrix(config: ModelConfig, weights: Weights, name: string): Tensor {
  const base = weights[name]!
  const a = weights[`${name}.lora_A`]
  const b = weights[`${name}.lora_B`]
  const { lora } = config
  if (lora === undefined || a === undefined || b === undefined) return base
  const input = base.shape[1]!
  const parts = runsOf(config, lora, name).map(({ rows, adapter }) =>
    adapter === undefined ? zeros([rows, input]) : matMul(slice(b, [adapter.row, 0], [rows, lora.rank]), slice(a, [adapter.first, 0], [lora.rank, input])),
  )
  return add(base, mul(parts.length === 1 ? parts[0]! : concat(parts, 0), loraScale(lora)))
}
