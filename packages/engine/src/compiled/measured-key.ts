// What the answers of measurements depend on, as text.
import { cpus } from "node:os"
import type { ModelConfig } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"

/** Library, device, processor and threads. */
export function machineKey({ info }: TensorRuntime): string {
  return [info.version, info.device, cpus()[0]?.model ?? "unknown", `${info.threads} threads`].join(", ")
}

export function shapeKey({ vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize }: ModelConfig): string {
  return [vocabSize, hiddenSize, layers, heads, kvHeads, headDim, intermediateSize].join("x")
}
