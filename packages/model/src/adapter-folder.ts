// Adapters as PEFT keeps them: adapter_config.json and adapter_model.safetensors in a folder, which PEFT and vLLM load; and adapters merged into the weights.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type Tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError, toCohortError } from "@cohort/errors"
import { openSafetensors, writeSafetensors } from "@cohort/safetensors"
import type { Variable } from "@cohort/tensor"
import type { ModelConfig } from "./config.ts"
import { checkpointTensors, finite, requireTensors, type TensorBytes } from "./folder.ts"
import { writeJson } from "./json-file.ts"
import { loraLayout, type LoraSettings, type LoraTarget, loraTargets, mergedMatrix } from "./lora.ts"
import type { Parameters, Policy, ValueSource } from "./policy.ts"

const configName = "adapter_config.json"
const weightsName = "adapter_model.safetensors"

/** The adapter's settings as PEFT 0.10 and newer read them. @param baseModel folder or name of the frozen weights */
export function peftConfig(lora: LoraSettings, baseModel: string): Readonly<Record<string, unknown>> {
  return {
    peft_type: "LORA", task_type: "CAUSAL_LM", base_model_name_or_path: baseModel, inference_mode: true,
    r: lora.rank, lora_alpha: lora.alpha, use_rslora: lora.rankStabilized === true, target_modules: loraTargets.filter((target) => lora.targets.includes(target)),
    lora_dropout: 0, bias: "none", fan_in_fan_out: false, init_lora_weights: true, modules_to_save: null, layers_to_transform: null, rank_pattern: {}, alpha_pattern: {},
  }
}

/** Writes an adapter to an existing folder; the config comes last. @throws CohortError `disk_full`, `file_invalid` */
export async function saveAdapter(folder: string, adapter: Parameters, lora: LoraSettings, baseModel: string): Promise<void> {
  await writeSafetensors(join(folder, weightsName), checkpointTensors(adapter), { metadata: { format: "pt" } })
  await writeJson(join(folder, configName), peftConfig(lora, baseModel))
}

export interface OpenAdapter {
  readonly lora: LoraSettings
  readonly values: ValueSource
  close(): void
}

/**
 * Opens an adapter that Cohort or PEFT wrote, for a model of this config.
 * @throws CohortError `model_invalid` naming what is missing, has another shape, or is not supported
 * @example
 * const opened = openAdapter("run/checkpoints/step-000050/adapter", policy.config)
 * adapter.load(opened.values)
 * opened.close()
 */
export function openAdapter(folder: string, config: ModelConfig): OpenAdapter {
  const lora = readPeftConfig(folder)
  const file = openSafetensors(join(folder, weightsName))
  requireTensors(folder, file, loraLayout(config, lora))
  return { lora, values: (name) => finite(folder, name, file.f32(name)), close: () => file.close() }
}

function readPeftConfig(folder: string): LoraSettings {
  const path = join(folder, configName)
  if (!existsSync(path)) throw new CohortError("model_invalid", `no adapter at ${folder}: ${configName} is missing`)
  let json: Record<string, unknown>
  try {
    json = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown> // an object or refused below, key by key
  } catch (cause) {
    throw toCohortError(cause, "model_invalid", path)
  }
  const { r, lora_alpha: alpha, target_modules: targets } = json
  const problems: string[] = []
  if (json.peft_type !== "LORA") problems.push(`peft_type is ${JSON.stringify(json.peft_type)}, only LORA is read`)
  if (typeof r !== "number" || !Number.isInteger(r) || r < 1) problems.push(`r is ${JSON.stringify(r)}`)
  if (typeof alpha !== "number" || !(alpha > 0)) problems.push(`lora_alpha is ${JSON.stringify(alpha)}`)
  if (!Array.isArray(targets) || targets.length === 0 || !targets.every((target) => (loraTargets as readonly unknown[]).includes(target))) problems.push(`target_modules is ${JSON.stringify(targets)}; a list of ${loraTargets.join(", ")} is needed`)
  if (json.use_dora === true) problems.push("use_dora is not supported")
  if (json.bias !== undefined && json.bias !== "none") problems.push(`bias is ${JSON.stringify(json.bias)}, only none is supported`)
  if (problems.length > 0) throw new CohortError("model_invalid", `${path}: ${problems.join("; ")}`, { details: { problems } })
  return { rank: r as number, alpha: alpha as number, targets: targets as LoraTarget[], ...(json.use_rslora === true ? { rankStabilized: true } : {}) } // checked above
}

/** The tensors of the model with the adapter merged in, W + scale B A, in the order of its file, one matrix at a time; float32 unless `matrices` says bf16. */
export function mergedTensors(policy: Policy, adapter: Parameters, lora: LoraSettings, matrices?: "f32" | "bf16"): Generator<TensorBytes> {
  return checkpointTensors(policy, { ...(matrices === undefined ? {} : { matrices }), dataOf: (index) => mergedValue(policy, adapter, lora, index, (value) => value.dataSync() as Float32Array) })
}

/** Makes `into`, a second copy of the policy, what the policy is with the adapter merged in. Matrices without an adapter are left as they are. */
export function mergeInto(into: Policy, policy: Policy, adapter: Parameters, lora: LoraSettings): void {
  for (const [index, variable] of into.variables.entries()) mergedValue(policy, adapter, lora, index, (value) => variable.assign(value))
}

/** Uses the merged value of one parameter; undefined where it has no adapter. */
function mergedValue<T>(policy: Policy, adapter: Parameters, lora: LoraSettings, index: number, use: (value: Tensor) => T): T | undefined {
  const { name } = policy.specs[index]!
  const variable = (suffix: string): Variable | undefined => adapter.variables[adapter.specs.findIndex((spec) => spec.name === `${name}.${suffix}`)]
  const [a, b] = [variable("lora_A"), variable("lora_B")]
  if (a === undefined || b === undefined) return undefined
  let used: T | undefined
  tidy(() => {
    used = use(mergedMatrix({ ...policy.config, lora }, { [name]: policy.variables[index]!.value(), [`${name}.lora_A`]: a.value(), [`${name}.lora_B`]: b.value() }, name))
  })
  return used
}
