// Model folders in Hugging Face layout: config.json, safetensors (one file or shards), and back.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import { openModelWeights, writeSafetensors } from "@cohort/safetensors"
import { type ModelConfig, parseModelConfig } from "./config.ts"
import { parameterLayout } from "./layout.ts"
import type { Policy } from "./policy.ts"

/** Reads `config.json` of a folder. @throws CohortError `model_invalid` */
export function readModelConfig(folder: string): ModelConfig {
  const path = join(folder, "config.json")
  if (!existsSync(path)) throw new CohortError("model_invalid", `no model at ${folder}: config.json is missing`, { hint: "Give the folder of a Hugging Face checkpoint." })
  let json: Record<string, unknown>
  try {
    json = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>
  } catch (cause) {
    throw toCohortError(cause, "model_invalid", path)
  }
  return parseModelConfig(json, path)
}

/** float32 tensors of a folder; `close` when all are read. */
export interface FolderValues {
  readonly values: (checkpointName: string, shape: readonly number[]) => Float32Array
  close(): void
}

/**
 * Opens the weights of a folder and checks them against the config: every tensor there, in its shape.
 * @throws CohortError `model_invalid` naming all tensors that are missing or have another shape
 */
export function openFolderValues(folder: string, config: ModelConfig): FolderValues {
  const weights = openModelWeights(folder)
  const names = new Set(weights.names)
  const problems: string[] = []
  for (const spec of parameterLayout(config))
    for (const part of spec.parts) {
      if (!names.has(part.checkpointName)) problems.push(`${part.checkpointName} is missing`)
      else {
        const { shape } = weights.info(part.checkpointName)
        if (shape.join() !== part.shape.join()) problems.push(`${part.checkpointName} is [${shape.join(", ")}], config.json asks for [${part.shape.join(", ")}]`)
      }
    }
  if (problems.length > 0) {
    weights[Symbol.dispose]()
    throw new CohortError("model_invalid", `${folder}: ${problems.slice(0, 8).join("; ")}${problems.length > 8 ? `; and ${problems.length - 8} more` : ""}`, { details: { problems } })
  }
  return { values: (name) => weights.f32(name), close: () => weights[Symbol.dispose]() }
}

/** The checkpoint's tensors of a policy in file order, float32. */
export function* checkpointTensors(policy: Policy): Generator<{ name: string; dtype: "F32"; shape: readonly number[]; bytes: Uint8Array }> {
  for (const [i, spec] of policy.specs.entries()) {
    const data = policy.variables[i]!.data() as Float32Array
    let begin = 0
    for (const part of spec.parts) {
      const size = part.shape.reduce((product, dim) => product * dim, 1)
      const values = data.subarray(begin, begin + size)
      yield { name: part.checkpointName, dtype: "F32", shape: part.shape, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) }
      begin += size
    }
  }
}

/**
 * Writes `model.safetensors` and `config.json`; tokenizer files are the caller's to copy.
 * Each file replaces an old one only when it is complete.
 */
export async function saveModelFolder(folder: string, policy: Policy): Promise<void> {
  await writeSafetensors(join(folder, "model.safetensors"), checkpointTensors(policy), { metadata: { format: "pt" } })
  await Bun.write(join(folder, "config.json"), `${JSON.stringify({ ...policy.config.source, torch_dtype: "float32", dtype: "float32" }, null, 2)}\n`)
}
