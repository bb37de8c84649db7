// A loop inside a compiled function: one StatelessWhile op whose condition and body are traced functions.
import { type Tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { record, type Recording, wrap } from "./compile.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { currentTrace, describe } from "./trace.ts"

type Condition = (...state: Tensor[]) => Tensor
type Body = (...state: Tensor[]) => Tensor[]

export function createWhileLoop(backend: TensorflowBackend) {
  const { binding } = backend
  return (condition: Condition, body: Body, state: readonly Tensor[]): Tensor[] => {
    const outer = currentTrace(binding)
    if (outer === undefined) return loopInJavaScript(condition, body, state)
    const ids = state.map((tensor) => outer.node(backend.idOf(tensor)))
    const signature = ids.map((id) => describe(binding, id))
    const recordings: Recording[] = []
    const recordPart = (name: string, fn: (...inputs: Tensor[]) => Tensor[]): Recording => {
      const recording = record(backend, name, fn, signature)
      recording.trace.suspend()
      recordings.push(recording)
      return recording
    }
    try {
      const repeated = recordPart("whileLoop body", body)
      const asked = recordPart("whileLoop condition", (...inputs) => [condition(...inputs)])
      requireSame(signature, repeated)
      // Both functions must take the same arguments: what either captures is passed to both, and handed on by the body unchanged.
      const invariants = [...new Set([...repeated.trace.captures, ...asked.trace.captures])]
      const held = invariants.map((id) => repeated.trace.node(id))
      const bodyFunction = repeated.trace.end("while_body", repeated.inputs, [...repeated.outputs.map((meta) => meta.id), ...held], invariants)
      outer.own(bodyFunction)
      const conditionFunction = asked.trace.end("while_condition", asked.inputs, asked.outputs.map((meta) => meta.id), invariants)
      outer.own(conditionFunction)
      const results = outer.whileLoop(conditionFunction, bodyFunction, [...ids, ...invariants])
      return results.slice(0, ids.length).map((meta) => wrap(backend, meta))
    } finally {
      for (const { trace } of recordings) trace.close()
    }
  }
}

function requireSame(state: readonly { dtype: number; shape: readonly number[] }[], body: Recording): void {
  const wanted = state.map(({ dtype, shape }) => `${dtype}[${shape.join(",")}]`)
  const given = body.outputs.map(({ dtype, shape }) => `${dtype}[${shape.join(",")}]`)
  const index = wanted.findIndex((text, i) => text !== given[i])
  if (given.length === wanted.length && index < 0) return
  throw new CohortError("tensor_failed", `whileLoop: the body returns (${given.join(", ")}) for a state of (${wanted.join(", ")})`, {
    hint: "The body must return the state in the same order, dtypes and shapes.",
  })
}

function loopInJavaScript(condition: Condition, body: Body, state: readonly Tensor[]): Tensor[] {
  let current = state.map((tensor) => tensor.clone())
  for (;;) {
    const now = current
    if (tidy(() => condition(...now).dataSync()[0]) === 0) return now
    current = tidy(() => body(...now).map((tensor) => tensor.clone()))
    for (const tensor of now) tensor.dispose()
  }
}
