// Model folders that load and are not quite what they seem.
import { expect } from "bun:test"
import { cp } from "node:fs/promises"
import { join } from "node:path"
import { openModelWeights, writeSafetensors } from "@cohort/safetensors"
import { faultyRun, repository, summaryOf, temporaryFolder, testRun } from "./faulty-run.ts"

testRun("a tied model with a head of its own: the run says which of the two it uses, once", async () => {
  const source = join(repository, "models/arithmetic-1m")
  const folder = join(await temporaryFolder(), "headed")
  await cp(source, folder, { recursive: true })
  using weights = openModelWeights(source)
  const tensors = weights.names.map((name) => ({ name, ...weights.info(name), bytes: weights.bytes(name).slice() }))
  const embedding = tensors.find(({ name }) => name === "model.embed_tokens.weight")!
  const head = { ...embedding, name: "lm_head.weight", bytes: new Uint8Array(embedding.bytes.length) }
  await writeSafetensors(join(folder, "model.safetensors"), [...tensors, head])
  const run = await faultyRun({ patch: { model: { path: folder }, train: { steps: 1 } } })
  await summaryOf(run)
  expect(run.warnings.filter((warning) => warning.includes("lm_head.weight"))).toEqual([`${folder}: tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight: the embeddings are used for both`])
}, 60_000)
