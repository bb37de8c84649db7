// Parts of a graph that XLA compiles as one program, while the rest runs op by op: traced once, called many times.
import { engine, type Tensor, tidy } from "@tensorflow/tfjs-core"
import { signatureKey, trace, wrap } from "./compile.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { currentTrace, describe, type Trace, type TracedFunction } from "./trace.ts"

export function createCluster(backend: TensorflowBackend) {
  const { binding } = backend
  return (fn: (...inputs: Tensor[]) => Tensor[], name = "cluster") => {
    // A function may capture nodes of the trace that it was made in, so it belongs to that trace and is released with it.
    const cache = new WeakMap<Trace, Map<string, TracedFunction>>()
    return (...inputs: Tensor[]): Tensor[] => {
      const outer = currentTrace(binding)
      // The tape must see the ops themselves.
      if (outer === undefined || isTapeOn()) return tidy(() => fn(...inputs))
      const ids = inputs.map((tensor) => outer.node(backend.idOf(tensor)))
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
      return outer.call(traced, ids, true).map((meta) => wrap(backend, meta))
    }
  }
}

function isTapeOn(): boolean {
  return (engine() as unknown as { isTapeOn(): boolean }).isTapeOn()
}
