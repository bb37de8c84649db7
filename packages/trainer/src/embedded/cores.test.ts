import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import { coresOfRun, trainerCores } from "./cores.ts"

const large = { cores: 2, parameters: 29e6, trainedParameters: 29e6, rows: 8, memoryBytes: 16e9 }

test("lanes share the cores; not for tiny models, single rows, or more gradients than the memory is for", () => {
  expect(trainerCores(large)).toEqual({ threads: 1, lanes: 2 })
  expect(trainerCores({ ...large, cores: 16 })).toEqual({ threads: 4, lanes: 4 })
  expect(trainerCores({ ...large, cores: 16, rows: 3 })).toEqual({ threads: 5, lanes: 3 })
  expect(trainerCores({ ...large, rows: 1 })).toEqual({ threads: 2, lanes: 1 })
  expect(trainerCores({ ...large, cores: 1 })).toEqual({ threads: 1, lanes: 1 })
  expect(trainerCores({ ...large, parameters: 1e5 })).toEqual({ threads: 2, lanes: 1 })
  expect(trainerCores({ ...large, cores: 16, parameters: 400e6, trainedParameters: 400e6 })).toEqual({ threads: 8, lanes: 2 })
  expect(trainerCores({ ...large, cores: 16, parameters: 400e6, trainedParameters: 4e6 })).toEqual({ threads: 4, lanes: 4 })
})

test("a run has lanes where its budget holds two of its longest samples, and the engine has a runtime of its own", () => {
  const modelFolder = mkdtempSync(join(tmpdir(), "cohort-cores-"))
  writeFileSync(join(modelFolder, "config.json"), JSON.stringify({ architectures: ["LlamaForCausalLM"], vocab_size: 512, hidden_size: 256, intermediate_size: 768, num_hidden_layers: 4, num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: 1024 }))
  const of = (input: Partial<RunConfigInput>, multiTurn = false): number =>
    coresOfRun(resolveConfig({ model: { path: modelFolder }, data: { source: "d", maxPromptTokens: 8 }, rewards: ["r"], rollout: { maxCompletionTokens: 8 }, ...input }), { modelFolder, cores: 2, memoryBytes: 16e9, multiTurn }).lanes
  expect(of({})).toBe(2)
  expect(of({ backend: { threads: 1 } })).toBe(1)
  expect(of({ train: { tokenBudget: 20 } })).toBe(1)
  expect(of({ train: { tokenBudget: 32 } })).toBe(2)
  expect(of({ train: { samplesPerBatch: 1 } })).toBe(1)
  expect(of({ train: { samplesPerBatch: 5 } })).toBe(2)
  expect(of({ inference: { colocated: true } })).toBe(1)
  expect(of({ backend: { compile: "eager" } })).toBe(1)
  expect(of({ train: { tokenBudget: 1024 } }, true)).toBe(1)
  rmSync(modelFolder, { recursive: true })
})
