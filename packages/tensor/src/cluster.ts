// Parts of a graph that XLA compiles as one program, while the rest runs op by op: traced once, called many times. Under tf.grads a
// cluster is one node of the tape, whose gradient is a cluster too and computes again what it needs of the forward pass.
import { addN, engine, mul, sum, type Tensor, tidy, zerosLike } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { firstNodeId } from "./binding.ts"
import { signatureKey, trace, wrap } from "./compile.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { currentTrace, describe, type Trace, type TracedFunction } from "./trace.ts"

type Fn = (...inputs: Tensor[]) => Tensor[]

/** What we use of tfjs's engine beyond its types. */
interface Tape {
  isTapeOn(): boolean
  readonly state: { activeTape: unknown; kernelDepth: number }
  gradients(f: () => Tensor, xs: readonly Tensor[], dy: undefined, allowNoGradients: boolean): { grads: (Tensor | undefined)[] }
  runKernelFunc(call: {
    forwardFunc(backend: unknown, save: (tensors: readonly Tensor[]) => void): Tensor[]
    backwardsFunc(dys: Tensor | Tensor[], saved: readonly Tensor[]): Record<number, () => Tensor>
    inputs: Record<number, Tensor>
  }): Tensor[]
}

function tape(): Tape {
  return engine() as unknown as Tape
}

export function createCluster(backend: TensorflowBackend) {
  return (fn: Fn, name = "cluster", constants: readonly number[] = []): Fn => {
    const forward = shared(backend, fn, name)
    const backwards = new Map<string, Fn>()
    return (...inputs) => {
      if (currentTrace(backend.binding) === undefined) return tidy(() => fn(...inputs))
      if (!tape().isTapeOn()) return forward(...inputs)
      // What is recorded here belongs to the cluster, not to the tape.
      const captured = withoutTape(() => forward.captures(...inputs))
      if (captured > 0)
        throw new CohortError("tensor_failed", `${name} uses ${captured} value${captured === 1 ? "" : "s"} of the function around it, which would get no gradient`, {
          hint: "Pass it as an argument; if it is constant, name its position in `constants`.",
        })
      const moving = [...inputs.keys()].filter((i) => inputs[i]!.dtype === "float32" && !constants.includes(i))
      return tape().runKernelFunc({
        inputs: { ...inputs },
        forwardFunc(_, save) {
          save(inputs)
          return forward(...inputs)
        },
        backwardsFunc(dys, saved) {
          const upstream = Array.isArray(dys) ? dys : [dys]
          const key = `${inputs.length} ${moving.join()} ${upstream.length}`
          let backward = backwards.get(key)
          if (backward === undefined) backwards.set(key, (backward = shared(backend, gradientOf(fn, inputs.length, moving), `${name}_gradient`)))
          const gradients = backward(...saved, ...upstream)
          return Object.fromEntries(moving.map((input, i) => [input, () => gradients[i]!]))
        },
      })
    }
  }
}

/** `fn` as a function of the runtime, one for each trace and signature. */
function shared(backend: TensorflowBackend, fn: Fn, name: string): Fn & { captures(...inputs: Tensor[]): number } {
  const { binding } = backend
  // A function may capture nodes of the trace that it was made in, so it belongs to that trace and is released with it.
  const cache = new WeakMap<Trace, Map<string, TracedFunction>>()
  const find = (outer: Trace, ids: readonly number[]): TracedFunction => {
    const signature = ids.map((id) => describe(binding, id))
    let known = cache.get(outer)
    if (known === undefined) cache.set(outer, (known = new Map()))
    const key = signatureKey(signature)
    let traced = known.get(key)
    if (traced === undefined) {
      traced = trace(backend, name, fn, signature)
      known.set(key, traced)
      outer.own(traced)
    }
    return traced
  }
  const prepare = (inputs: readonly Tensor[]): { outer: Trace; ids: number[]; traced: TracedFunction } => {
    const outer = currentTrace(binding)!
    const ids = inputs.map((tensor) => outer.node(backend.idOf(tensor)))
    return { outer, ids, traced: find(outer, ids) }
  }
  const call = (...inputs: Tensor[]): Tensor[] => {
    const { outer, ids, traced } = prepare(inputs)
    return outer.call(traced, ids, true).map((meta) => wrap(backend, meta))
  }
  /** How many values of the function around it `fn` uses, weights among them. */
  const captures = (...inputs: Tensor[]): number => prepare(inputs).traced.captures.filter((id) => id >= firstNodeId).length
  return Object.assign(call, { captures })
}

function withoutTape<T>(body: () => T): T {
  const { state } = tape()
  state.kernelDepth++
  try {
    return body()
  } finally {
    state.kernelDepth--
  }
}

/** (inputs, d loss / d outputs) -> d loss / d inputs, for the inputs at the positions `moving`. */
function gradientOf(fn: Fn, inputCount: number, moving: readonly number[]): Fn {
  return (...given) => {
    const inputs = given.slice(0, inputCount)
    const upstream = given.slice(inputCount)
    const xs = moving.map((i) => inputs[i]!)
    // The product with the upstream gradient has the gradient that is asked for; its value is not used, so XLA drops it.
    const loss = (): Tensor => addN(fn(...inputs).flatMap((output, k) => (output.dtype === "float32" ? [sum(mul(output, upstream[k]!))] : [])))
    // This runs while tfjs walks an outer tape, which an inner one would clear.
    const { state } = tape()
    const outer = state.activeTape
    try {
      return tape().gradients(loss, xs, undefined, true).grads.map((gradient, i) => gradient ?? zerosLike(xs[i]!))
    } finally {
      state.activeTape = outer
    }
  }
}
