// compile(fn): traces tfjs code once per input signature and runs the trace as one native call.
import { type Tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { type Attribute, AttributeKind, type TensorMeta } from "./binding.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { Trace, type TracedFunction } from "./trace.ts"

/**
 * How a traced function runs: `xla` compiles it whole; `graph` runs its ops one by one, with runs of element-wise ops clustered and
 * compiled by XLA between the matrix products; `eager` does not trace.
 */
export type CompileMode = "xla" | "graph" | "eager"

export interface CompileOptions {
  readonly mode: CompileMode
  /** Shown in errors. */
  readonly name: string
  /** Precision of the matrix products inside; `f32` unless said otherwise. */
  readonly precision?: MatMulPrecision
}

/** Precision of matrix products: `bf16` rounds their inputs and results, everything else stays float32. */
export type MatMulPrecision = "f32" | "bf16"

/** A function of tensors that was or will be traced. Outputs are the caller's to dispose; inputs stay the caller's. */
export interface CompiledFunction {
  (...inputs: Tensor[]): Tensor[]
  /** Signatures traced so far. */
  signatures(): readonly string[]
  dispose(): void
}

const mustCompile: readonly Attribute[] = [{ name: "_XlaMustCompile", type: AttributeKind.bool, value: true }]

/** Wraps what an op returned as a tfjs tensor of the current scope. */
export function wrap(backend: TensorflowBackend, meta: TensorMeta): Tensor {
  return backend.createOutputTensor(meta)
}

/** Traces `fn` for the given argument types. Nothing it does may depend on values. */
export function trace(backend: TensorflowBackend, name: string, fn: (...inputs: Tensor[]) => Tensor[], signature: readonly { dtype: number; shape: readonly number[] }[]): TracedFunction {
  const open = new Trace(backend.binding)
  let ended = false
  const scope: Tensor[] = []
  try {
    let result: TracedFunction | undefined
    tidy(() => {
      const metas = signature.map(({ dtype, shape }) => open.argument(dtype, shape))
      const outputs = fn(...metas.map((meta) => wrap(backend, meta)))
      ended = true
      result = open.end(metas.map((meta) => meta.id), outputs.map((tensor) => backend.idOf(tensor)))
      return scope
    })
    return result!
  } catch (cause) {
    if (!ended) open.abandon()
    if (cause instanceof CohortError) throw new CohortError(cause.code, `${name}: ${cause.message}`, { cause, ...(cause.hint === undefined ? {} : { hint: cause.hint }) })
    throw new CohortError("tensor_failed", `${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

export function createCompile(backend: TensorflowBackend, withPrecision: <T>(precision: MatMulPrecision, body: () => T) => T) {
  return (fn: (...inputs: Tensor[]) => Tensor[], options: CompileOptions): CompiledFunction => {
    const cache = new Map<string, TracedFunction>()
    const precision = options.precision ?? "f32"
    const attributes = options.mode === "xla" ? mustCompile : []
    const call = (...inputs: Tensor[]): Tensor[] => {
      if (options.mode === "eager") return withPrecision(precision, () => tidy(() => fn(...inputs)))
      const { binding } = backend
      const ids = inputs.map((input) => backend.idOf(input))
      const signature = ids.map((id) => binding.describe(id))
      const key = signature.map(({ dtype, shape }) => `${dtype}[${shape.join(",")}]`).join(" ")
      let traced = cache.get(key)
      if (traced === undefined) cache.set(key, (traced = withPrecision(precision, () => trace(backend, options.name, fn, signature))))
      const metas = binding.executeOp(traced.name, attributes, [...ids, ...traced.captures], traced.outputs.length)
      return metas.map((meta) => wrap(backend, meta))
    }
    return Object.assign(call, {
      signatures: () => [...cache.keys()],
      dispose() {
        for (const traced of cache.values()) {
          for (const id of traced.captures) backend.binding.deleteTensor(id)
          const { c, name, status, check } = backend.binding.library
          c.TFE_ContextRemoveFunction(backend.binding.context, name(traced.name), status)
          check("remove function")
          c.TF_DeleteFunction(traced.function)
        }
        cache.clear()
      },
    })
  }
}
