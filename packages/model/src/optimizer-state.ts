// AdamW's moments on disk: one safetensors file beside the weights, `m.<parameter>` and `v.<parameter>` in float32, the step count in
// its metadata.
import { CohortError } from "@cohort/errors"
import { openSafetensors, writeSafetensors } from "@cohort/safetensors"
import type { Variable } from "@cohort/tensor"
import type { ParameterSpec } from "./layout.ts"

/** Resident moments, in the order of `specs`. */
export interface OptimizerMoments {
  readonly specs: readonly ParameterSpec[]
  readonly first: readonly Variable[]
  readonly second: readonly Variable[]
}

/** Writes moments and step count; an old file is replaced only when the new one is complete. */
export async function saveOptimizerState(path: string, state: OptimizerMoments & { readonly step: number }): Promise<void> {
  const tensors = function* () {
    for (const [prefix, variables] of [["m", state.first], ["v", state.second]] as const)
      for (const [i, spec] of state.specs.entries()) {
        const values = variables[i]!.data() as Float32Array
        yield { name: `${prefix}.${spec.name}`, dtype: "F32" as const, shape: spec.shape, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) }
      }
  }
  await writeSafetensors(path, tensors(), { metadata: { step: String(state.step) } })
}

/**
 * Reads moments into their variables and returns the step count. Everything is checked before anything is changed.
 * @throws CohortError `checkpoint_invalid` naming each tensor that is missing or has another shape
 */
export function loadOptimizerState(path: string, state: OptimizerMoments): number {
  using file = openSafetensors(path)
  const step = Number(file.metadata.step)
  const problems = Number.isInteger(step) && step >= 0 ? [] : [`metadata step is ${JSON.stringify(file.metadata.step)}`]
  const wanted = ([["m", state.first], ["v", state.second]] as const).flatMap(([prefix, variables]) =>
    state.specs.map((spec, i) => ({ name: `${prefix}.${spec.name}`, shape: spec.shape, variable: variables[i]! })),
  )
  for (const { name, shape } of wanted) {
    if (!file.has(name)) problems.push(`${name} is missing`)
    else if (file.info(name).shape.join() !== shape.join()) problems.push(`${name} is [${file.info(name).shape.join(", ")}], the model has [${shape.join(", ")}]`)
  }
  if (problems.length > 0)
    throw new CohortError("checkpoint_invalid", `${path}: ${problems.slice(0, 8).join("; ")}`, { hint: "The checkpoint belongs to another model: resume with the config it was made with.", details: { problems } })
  for (const { name, variable } of wanted) variable.load(file.f32(name).slice())
  return step
}
