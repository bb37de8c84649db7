import { expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ModelRunner } from "../runner.ts"
import { chooseDtype, dtypeBySize, type RunnerDtype } from "./dtype.ts"

/** Runners that only pass time: `ms` of a chunk in each type. */
function timedRunners(ms: Readonly<Record<RunnerDtype, number>>) {
  let clock = 0
  const opened: RunnerDtype[] = []
  const open = (dtype: RunnerDtype): ModelRunner => {
    opened.push(dtype)
    return {
      info: { slots: 8, maxModelLength: 64, vocabSize: 10, chunkSizes: [1, 2, 4, 8], parameters: 1, dtype, backend: "none" },
      async prefill() {},
      async decode(inputs, steps) {
        clock += ms[dtype]
        return { steps, tokenIds: new Int32Array(inputs.length * steps), logProbs: new Float32Array(inputs.length * steps) }
      },
      score: () => Promise.resolve(new Float32Array(0)),
      async loadWeights() {},
      async close() {},
    }
  }
  return { open, opened, now: () => clock }
}

test("size decides for tiny and for large models, and float32 where nobody may measure", async () => {
  expect(dtypeBySize(850_000)).toBe("f32")
  expect(dtypeBySize(29_000_000)).toBeUndefined()
  expect(dtypeBySize(135_000_000)).toBe("bf16")
  const runners = timedRunners({ f32: 3, bf16: 1 })
  expect(await chooseDtype({ parameters: 29_000_000, key: "k", memory: undefined, ...runners })).toBe("f32")
  expect(runners.opened).toEqual([])
})

test("between, bf16 must win by a quarter, and the answer is kept", async () => {
  const folder = mkdtempSync(join(tmpdir(), "cohort-dtype-"))
  const memory = join(folder, "forms.json")
  const choose = (key: string, runners: ReturnType<typeof timedRunners>) => chooseDtype({ parameters: 29_000_000, key, memory, ...runners })
  try {
    const fast = timedRunners({ f32: 40, bf16: 20 })
    expect(await choose("fast", fast)).toBe("bf16")
    expect(await choose("even", timedRunners({ f32: 22, bf16: 20 }))).toBe("f32")
    expect(await choose("fast", fast)).toBe("bf16")
    expect(fast.opened).toEqual(["f32", "bf16"])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
