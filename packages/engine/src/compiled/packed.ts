// Whether decode programs may keep rearranged copies of their weights, and how many: each program has copies of its own.
import { ones, tidy } from "@tensorflow/tfjs-core"
import { isCohortError } from "@cohort/errors"
import { DType } from "@cohort/tensor"
import type { RunnerModel } from "./model.ts"

/** Part of the machine's memory that the copies of all programs may take. */
const memoryShare = 1 / 8

/** How many programs may keep copies; 0 where the library has no such product. */
export function packedPrograms(model: RunnerModel, totalBytes: number): number {
  if (!canPack(model)) return 0
  const { parameters } = model.policy
  return Math.floor((totalBytes * memoryShare) / (parameters * (model.dtype === DType.bfloat16 ? 2 : 4)))
}

function canPack({ runtime, raw, dtype }: RunnerModel): boolean {
  if (runtime.info.device !== "cpu") return false
  const program = runtime.compile((x) => [raw.cast(raw.packedMatMul(raw.cast(x!, dtype), raw.cast(x!, dtype)), DType.float32)], { name: "packed product", mode: "graph", autoCluster: false })
  try {
    return tidy(() => program(ones([16, 16]))[0]!.dataSync().every((value) => value === 16))
  } catch (thrown) {
    // A library built without oneDNN does not know the kernel.
    if (isCohortError(thrown)) return false
    throw thrown
  } finally {
    program.dispose()
  }
}
