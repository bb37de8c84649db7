// The resident weights of a runner: opened from a folder, and replaced from another one in place.
import { CohortError } from "@cohort/errors"
import { createPolicy, openFolderValues, type Policy, readModelConfig } from "@cohort/model"
import { openModelWeights } from "@cohort/safetensors"
import type { TensorRuntime } from "@cohort/tensor"

export function openPolicy(runtime: TensorRuntime, folder: string, type: "f32" | "bf16"): Policy {
  const config = readModelConfig(folder)
  const source = openFolderValues(folder, config)
  try {
    return createPolicy(runtime, config, source.values, type, source.words)
  } finally {
    source.close()
  }
}

/**
 * Replaces the weights by those of a folder. Every name and shape is checked before the first variable changes.
 * @throws CohortError `inference_rejected` when the weights are the trainer's, `model_invalid` with nothing changed
 */
export function loadPolicy(policy: Policy, folder: string, owned: boolean): void {
  if (!owned)
    throw new CohortError("inference_rejected", "this runner shares the trainer's resident weights; it has none of its own to load", {
      hint: "The trainer's optimizer step updates them in place. Start a separate engine to load weights from folders.",
    })
  const source = openFolderValues(folder, policy.config)
  try {
    requireFloats(folder)
    policy.load(source.values, source.words)
  } finally {
    source.close()
  }
}

/** What cannot become float32 must be known before the first variable changes. */
function requireFloats(folder: string): void {
  using weights = openModelWeights(folder)
  const wrong = weights.names.filter((name) => !["F16", "BF16", "F32", "F64"].includes(weights.info(name).dtype))
  if (wrong.length > 0)
    throw new CohortError("model_invalid", `${folder}: ${wrong[0]} is ${weights.info(wrong[0]!).dtype}; F16, BF16, F32 and F64 can be loaded`, { hint: "Save the model unquantized.", details: { tensors: wrong.slice(0, 8) } })
}
