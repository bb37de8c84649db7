// Model folders: what is read, what is refused and by which name, and that a saved folder is read again.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isCohortError } from "@cohort/errors"
import { checksumFile, fromF32, openSafetensors, type TensorToWrite, writeSafetensors } from "@cohort/safetensors"
import { openRuntime, type TensorRuntime, toBfloat16 } from "@cohort/tensor"
import { parseModelConfig } from "./config.ts"
import { checkpointTensors, folderWarnings, finiteWords, openFolderValues, readModelConfig, saveModelFolder, writeCheckpointFile } from "./folder.ts"
import { parameterCount, parameterLayout } from "./layout.ts"
import { loadOptimizerState, saveOptimizerState } from "./optimizer-state.ts"
import { createPolicy, randomValues } from "./policy.ts"

const json = { architectures: ["Qwen2ForCausalLM"], vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, intermediate_size: 6, tie_word_embeddings: true, anything_else: [1] }
const config = parseModelConfig(json)
const tied = "model.embed_tokens.weight"

let runtime: TensorRuntime
let scratch: string
let folder: string
let count = 0
beforeAll(async () => {
  runtime = await openRuntime({ backend: "cpu" })
  scratch = mkdtempSync(join(tmpdir(), "cohort-model-"))
})
afterAll(() => {
  runtime.close()
  rmSync(scratch, { recursive: true, force: true })
})
beforeEach(() => {
  folder = join(scratch, String(count++))
  mkdirSync(folder)
})

/** Tensors of a small model; `change` may replace, drop or add some. */
function tensors(change: (all: Map<string, TensorToWrite>) => void = () => {}): TensorToWrite[] {
  const values = randomValues(config, 5)
  const all = new Map<string, TensorToWrite>()
  for (const spec of parameterLayout(config))
    for (const { checkpointName: name, shape } of spec.parts) all.set(name, { name, shape, dtype: "F32", bytes: fromF32(values(name, shape), "F32") })
  change(all)
  return [...all.values()]
}

async function write(list: readonly TensorToWrite[], settings: object = json): Promise<void> {
  await writeSafetensors(join(folder, "model.safetensors"), list)
  writeFileSync(join(folder, "config.json"), JSON.stringify(settings))
}

/** Message of the `model_invalid` that opening and reading the folder throws. */
function refusal(): string {
  try {
    const read = readModelConfig(folder)
    const weights = openFolderValues(folder, read)
    for (const spec of parameterLayout(read)) for (const part of spec.parts) weights.values(part.checkpointName, part.shape)
  } catch (error) {
    if (isCohortError(error) && error.code === "model_invalid") return error.message
    throw error
  }
  return "none"
}

test("a saved folder is read again, and keeps the settings that we do not know", async () => {
  const policy = createPolicy(runtime, config, randomValues(config, 5))
  await saveModelFolder(folder, policy)
  expect(readdirSync(folder).toSorted()).toEqual(["config.json", "model.safetensors"])
  expect(JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))).toEqual({ ...json, dtype: "float32", torch_dtype: "float32" })
  using file = openSafetensors(join(folder, "model.safetensors"))
  expect(file.has("lm_head.weight")).toBe(false)
  const weights = openFolderValues(folder, readModelConfig(folder))
  const again = createPolicy(runtime, readModelConfig(folder), weights.values)
  weights.close()
  expect(again.parameters).toBe(parameterCount(parameterLayout(config)))
  for (const spec of policy.specs) for (const part of spec.parts) expect(again.read(part.checkpointName)).toEqual(policy.read(part.checkpointName))
  policy.dispose()
  again.dispose()
})

test("values are rows of the joined matrix, in the checkpoint's order", () => {
  const policy = createPolicy(runtime, config, (name, shape) => new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(["q_proj", "k_proj", "v_proj"].findIndex((part) => name.includes(part)) + 1))
  const qkv = policy.variables[policy.specs.findIndex((spec) => spec.name === "layers.0.qkv")]!.data() as Float32Array
  // 2 heads, 1 key head, head size 4, input 8.
  expect([...qkv]).toEqual([...Array(64).fill(1), ...Array(32).fill(2), ...Array(32).fill(3)])
  expect([...policy.read("model.layers.0.self_attn.v_proj.weight")]).toEqual(Array(32).fill(3))
  expect(() => policy.read("lm_head.weight")).toThrow("no tensor lm_head.weight")
  policy.load((_, shape) => new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(7))
  expect(policy.read("model.layers.0.self_attn.k_proj.bias")).toEqual(new Float32Array(4).fill(7))
  policy.dispose()
})

test("values of a wrong length are refused by name", () => {
  expect(() => createPolicy(runtime, config, (_, shape) => new Float32Array(shape[0]!))).toThrow(`${tied} has 11 values, its shape [11, 8] needs 88`)
})

describe("refuses, by name", () => {
  test("tensors that are missing, of another shape or type, all at once", async () => {
    await write(tensors((all) => {
      all.delete("model.norm.weight")
      all.set(tied, { name: tied, shape: [12, 8], dtype: "F32", bytes: new Uint8Array(12 * 8 * 4) })
      all.set("model.layers.0.mlp.up_proj.weight", { name: "model.layers.0.mlp.up_proj.weight", shape: [6, 8], dtype: "I8", bytes: new Uint8Array(48) })
    }))
    const message = refusal()
    expect(message).toContain("model.norm.weight is missing")
    expect(message).toContain(`${tied} is [12, 8], config.json asks for [11, 8]`)
    expect(message).toContain("up_proj.weight holds I8")
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY])("a tensor that holds %p", async (bad) => {
    const name = "model.layers.0.mlp.down_proj.weight"
    await write(tensors((all) => {
      const broken = new Float32Array(48)
      broken[17] = bad
      all.set(name, { name, shape: [8, 6], dtype: "F32", bytes: fromF32(broken, "F32") })
    }))
    expect(refusal()).toContain(`${name} holds ${bad} at element 17`)
  })

  test("a missing head where embeddings are not tied", async () => {
    await write(tensors(), { ...json, tie_word_embeddings: false })
    expect(refusal()).toContain("lm_head.weight is missing and tie_word_embeddings is false")
  })

  test("a folder without config, and a config that is no JSON", () => {
    expect(refusal()).toContain("config.json is missing")
    writeFileSync(join(folder, "config.json"), "{")
    expect(refusal()).toContain(join(folder, "config.json"))
    for (const text of ["null", "[]"]) {
      writeFileSync(join(folder, "config.json"), text)
      expect(refusal()).toContain("an object is needed")
    }
  })

  test("a tied model with a head: equal is silent, different is a warning and the embeddings win", async () => {
    const add = (fill: number) => (all: Map<string, TensorToWrite>): void => {
      const embedding = all.get(tied)!
      const bytes = embedding.bytes.slice()
      bytes[0]! += fill
      all.set("lm_head.weight", { ...embedding, name: "lm_head.weight", bytes })
    }
    await write(tensors(add(0)))
    expect(folderWarnings(folder)).toEqual([])
    await write(tensors(add(1)))
    expect(folderWarnings(folder)).toEqual([`${folder}: tie_word_embeddings is true, but lm_head.weight differs from ${tied}: the embeddings are used for both`])
    expect(refusal()).toBe("none")
  })
})

describe("optimizer state", () => {
  const moments = (fill: number) => {
    const specs = parameterLayout(config)
    const make = (at: number) => specs.map((spec, i) => runtime.variable(spec.name, spec.shape, "f32", new Float32Array(spec.shape.reduce((a, b) => a * b, 1)).fill(fill * (at + i))))
    return { specs, first: make(1), second: make(100) }
  }

  test("comes back with its step count, under names a reader can guess", async () => {
    const path = join(folder, "optimizer.safetensors")
    const saved = moments(0.5)
    await saveOptimizerState(path, { ...saved, step: 12 })
    using file = openSafetensors(path)
    expect(file.metadata).toEqual({ step: "12" })
    expect(file.has("m.layers.0.qkv") && file.has("v.final_norm")).toBe(true)
    const loaded = moments(0)
    expect(loadOptimizerState(path, loaded)).toBe(12)
    saved.first.forEach((variable, i) => expect(loaded.first[i]!.data()).toEqual(variable.data()))
    saved.second.forEach((variable, i) => expect(loaded.second[i]!.data()).toEqual(variable.data()))
  })

  test("of another model is refused before anything changes", async () => {
    const path = join(folder, "optimizer.safetensors")
    await saveOptimizerState(path, { ...moments(1), step: 3 })
    const mine = moments(0)
    const specs = mine.specs.map((spec) => (spec.name === "embed" ? { ...spec, shape: [12, 8] } : spec.name === "final_norm" ? { ...spec, name: "last_norm" } : spec))
    expect(() => loadOptimizerState(path, { ...mine, specs })).toThrow(/m\.embed is \[11, 8\], the model has \[12, 8\]; m\.last_norm is missing/)
    expect(mine.first.every((variable) => (variable.data() as Float32Array).every((value) => value === 0))).toBe(true)
    await writeSafetensors(path, [])
    expect(() => loadOptimizerState(path, mine)).toThrow("metadata step is undefined")
  })
})

test("matrices are given as bf16 where that is asked for, rounded as a reader would, and read back as words", async () => {
  const policy = createPolicy(runtime, config, randomValues(config, 5))
  const given = [...checkpointTensors(policy, { matrices: "bf16" })]
  for (const { name, dtype, shape, bytes } of given) {
    expect(dtype).toBe(shape.length === 2 ? "BF16" : "F32")
    const values = policy.read(name)
    expect(Buffer.from(bytes).equals(Buffer.from(fromF32(values, dtype)))).toBe(true)
  }
  await write(given)
  const opened = openFolderValues(folder, config)
  for (const { name, dtype } of given) expect(opened.words(name)).toEqual(dtype === "BF16" ? toBfloat16(policy.read(name)) : undefined)
  opened.close()
  policy.dispose()
})

test("a file written straight from the parameters holds what they give one by one, and a failure leaves none", async () => {
  const policy = createPolicy(runtime, config, randomValues(config, 5))
  for (const matrices of ["f32", "bf16"] as const) {
    const path = join(folder, `direct-${matrices}.safetensors`)
    const { bytes, checksum } = writeCheckpointFile(path, policy, { matrices, metadata: { format: "pt" } })
    expect({ bytes, checksum }).toEqual({ bytes: Bun.file(path).size, checksum: await checksumFile(path) })
    using file = openSafetensors(path)
    const given = [...checkpointTensors(policy, { matrices })]
    expect(file.names.toSorted()).toEqual(given.map(({ name }) => name).toSorted())
    for (const { name, dtype, shape, bytes: own } of given) {
      expect(file.info(name)).toMatchObject({ dtype, shape })
      expect(Buffer.from(file.bytes(name)).equals(Buffer.from(own))).toBe(true)
    }
  }
  const path = join(folder, "broken.safetensors")
  const broken = { specs: policy.specs, variables: policy.variables.map((variable, i) => (i === 2 ? { ...variable, withBytes: () => { throw new Error("no value") } } : variable)) }
  expect(() => writeCheckpointFile(path, broken, { metadata: {} })).toThrow("no value")
  expect(existsSync(path)).toBe(false)
  policy.dispose()
})

test("words that are no numbers are found wherever they are, and no others", () => {
  const numbers = [0, 0x8000, 0x3f80, 0x7f7f, 0xff7f, 1, 0x007f, 0x807f]
  for (const start of [0, 1])
    for (const length of [0, 1, 2, 3, 4, 7, 8]) {
      const words = new Uint16Array(16).fill(0x7fc0).subarray(start, start + length)
      words.forEach((_, at) => (words[at] = numbers[at % numbers.length]!))
      expect(finiteWords(words)).toBe(true)
      for (let at = 0; at < length; at++)
        for (const bad of [0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff]) {
          const before = words[at]!
          words[at] = bad
          expect(finiteWords(words)).toBe(false)
          words[at] = before
        }
    }
})

test("a word that is no number is refused by its tensor's name", async () => {
  await write(tensors((all) => {
    const embeddings = all.get(tied)!
    const words = toBfloat16(randomValues(config, 5)(tied, embeddings.shape))
    words[3] = 0x7fc0
    all.set(tied, { ...embeddings, dtype: "BF16", bytes: new Uint8Array(words.buffer) })
  }))
  const opened = openFolderValues(folder, config)
  expect(() => opened.words(tied)).toThrow(`${tied} holds NaN at element 3`)
  opened.close()
})
