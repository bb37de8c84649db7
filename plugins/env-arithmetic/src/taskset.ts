// Rows for training and rows held out: two stretches of one shuffled numbering, so they cannot meet.
import { CohortError, type PromptRow, type RowSource, type TaskSet } from "@cohort/plugin"
import type { ArithmeticOptions } from "./options.ts"
import { permutation } from "./permutation.ts"
import { type Problem, problemSpace, type Space, valueOf } from "./space.ts"

/** Past this the shuffle's numbers would leave the exact integers. */
const largestSpace = 2 ** 48

/**
 * The task set of some options. Positions 0 to `heldOut` - 1 of the shuffled space are held out, the others are `train`.
 *
 * @throws CohortError `config_invalid` where the space is too small for the held-out rows, or too large to number.
 * @example arithmeticTasks({ digits: 2, operations: ["+"], maxTerms: 2, heldOut: 512, seed: 0, style: "bare", zeroPad: true })
 */
export function arithmeticTasks(options: ArithmeticOptions): TaskSet {
  const { digits, operations, maxTerms, heldOut, seed } = options
  const space = problemSpace(digits, operations, maxTerms)
  if (space.size > largestSpace || digits * maxTerms > 15)
    throw new CohortError("config_invalid", `env-arithmetic: ${digits} digits and ${maxTerms} terms make numbers that are not exact`, {
      hint: "Lower digits or maxTerms: digits times maxTerms must stay at 15 or below, and the space below 2^48 problems.",
      details: { digits, maxTerms, size: space.size },
    })
  if (heldOut >= space.size)
    throw new CohortError("config_invalid", `env-arithmetic: heldOut is ${heldOut}, but there are only ${space.size} problems`, {
      hint: "Lower heldOut, or raise digits, maxTerms or the number of operations.",
      details: { heldOut, size: space.size },
    })
  const shuffled = permutation(space.size, seed)
  const source = (name: string, first: number, size: number): RowSource => ({
    name: `env-arithmetic/${name}`,
    size,
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= size) throw new RangeError(`env-arithmetic/${name}: no row ${index}, the size is ${size}`)
      return rowOf(space, shuffled(first + index), options)
    },
  })
  return { train: source("train", heldOut, space.size - heldOut), heldOut: source("held-out", 0, heldOut) }
}

function rowOf(space: Space, index: number, options: ArithmeticOptions): PromptRow {
  const problem = space.at(index)
  const { terms, operations } = problem
  const [a, b] = [terms[0]!, terms[1]!]
  return {
    id: expressionOf(problem, 0),
    prompt: promptOf(problem, options),
    answer: String(valueOf(problem)),
    a,
    b,
    operation: operations[0]!,
    ...(terms.length > 2 ? { terms, operations } : {}),
  }
}

function promptOf(problem: Problem, { style, digits, zeroPad }: ArithmeticOptions): PromptRow["prompt"] {
  if (style === "bare") return `${expressionOf(problem, zeroPad ? digits : 0)}=`
  return [{ role: "user", content: `What is ${expressionOf(problem, 0)}?` }]
}

function expressionOf({ terms, operations }: Problem, width: number): string {
  const written = terms.map((term) => String(term).padStart(width, "0"))
  return written.slice(1).reduce((text, term, index) => `${text}${operations[index]}${term}`, written[0]!)
}
