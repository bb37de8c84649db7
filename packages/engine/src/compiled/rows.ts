// The host arrays of a decode call: one entry per row, rows past the inputs idle.
import type { SlotInput } from "../runner.ts"
import type { SamplingVariant } from "./sample.ts"

export interface HostInput {
  readonly values: Int32Array | Float32Array
  readonly shape: number[]
  readonly type: "int32" | "float32"
}

/** Below this a temperature is greedy: dividing by it would overflow. */
const coldest = 1e-5

export function isGreedy(input: SlotInput): boolean {
  return input.temperature < coldest
}

/** The parts of sampling that some row needs. */
export function variantOf(inputs: readonly SlotInput[], top: number): SamplingVariant {
  return {
    truncates: inputs.some((input) => !isGreedy(input) && (input.topK > 0 || input.topP < 1 || input.minP > 0)),
    penalizes: inputs.some((input) => input.repetitionPenalty !== 1),
    top,
  }
}

/** Arrays in the order that the decode programs take them. */
export function rowArrays(inputs: readonly SlotInput[], rows: number, vocabSize: number, variant: SamplingVariant): HostInput[] {
  const ints = (valueOf: (input: SlotInput) => number, idle = 0): HostInput => ({ values: Int32Array.from({ length: rows }, (_, i) => (inputs[i] === undefined ? idle : valueOf(inputs[i]))), shape: [rows], type: "int32" })
  const floats = (valueOf: (input: SlotInput) => number, idle: number): HostInput => ({ values: Float32Array.from({ length: rows }, (_, i) => (inputs[i] === undefined ? idle : valueOf(inputs[i]))), shape: [rows], type: "float32" })
  const arrays = [
    ints((input) => input.lastToken),
    ints((input) => input.position),
    ints((input) => input.seed | 0),
    floats((input) => (isGreedy(input) ? 1 : 1 / input.temperature), 1),
    ints((input) => Number(isGreedy(input)), 1),
  ]
  if (variant.truncates) arrays.push(ints((input) => Math.max(0, input.topK)), floats((input) => input.topP, 1), floats((input) => input.minP, 0))
  if (variant.penalizes) {
    const seen = new Int32Array(rows * vocabSize)
    inputs.forEach((input, row) => {
      for (const id of input.history) seen[row * vocabSize + id] = 1
    })
    arrays.push(floats((input) => input.repetitionPenalty, 1), { values: seen, shape: [rows, vocabSize], type: "int32" })
  }
  return arrays
}
