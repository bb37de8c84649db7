// Folders that we save are the folders that transformers saves: same tensors, same bytes, and transformers computes the same from them.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { saveModelFolder } from "@cohort/model"
import { openModelWeights } from "@cohort/safetensors"
import { openRuntime, type TensorRuntime } from "@cohort/tensor"
import { cases, openCase } from "./golden.ts"

/** A Python with the packages named in make.py; the comparison by transformers itself runs where this is set. */
const python = process.env["COHORT_PARITY_PYTHON"]
let runtime: TensorRuntime
let scratch: string
beforeAll(async () => {
  runtime = await openRuntime({ backend: "cpu" })
  scratch = mkdtempSync(join(tmpdir(), "cohort-parity-"))
})
afterAll(() => {
  runtime.close()
  rmSync(scratch, { recursive: true, force: true })
})

for (const name of readdirSync(cases).toSorted())
  describe(name, () => {
    test("saved again, holds the same tensors and settings", async () => {
      const folder = join(scratch, name)
      const policy = openCase(runtime, join(cases, name))
      mkdirSync(folder)
      await saveModelFolder(folder, policy)
      using theirs = openModelWeights(join(cases, name))
      using ours = openModelWeights(folder)
      expect([...ours.names].toSorted()).toEqual([...theirs.names].toSorted())
      expect(ours.metadata).toEqual({ format: "pt" })
      for (const tensor of theirs.names) {
        expect(ours.info(tensor).shape).toEqual(theirs.info(tensor).shape)
        expect(Buffer.compare(bytes(ours.f32(tensor)), bytes(theirs.f32(tensor))), tensor).toBe(0)
      }
      // A file that transformers wrote whole in float32 comes out byte for byte.
      if (theirs.files[0] === "model.safetensors" && theirs.info(theirs.names[0]!).dtype === "F32")
        expect(readFileSync(join(folder, "model.safetensors")).equals(readFileSync(join(cases, name, "model.safetensors")))).toBe(true)
      const json = (path: string) => JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as Record<string, unknown>
      expect(json(folder)).toEqual({ ...json(join(cases, name)), dtype: "float32", torch_dtype: "float32" })
    })

    test.skipIf(python === undefined)("is loaded by transformers with the same logits", async () => {
      const { exitCode, stdout } = await Bun.$`${python!} ${join(import.meta.dir, "make.py")} check ${join(scratch, name)} ${name}`.nothrow().quiet()
      expect(stdout.toString()).toContain("largest difference")
      expect(exitCode).toBe(0)
    }, 120_000)
  })

function bytes(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength)
}
