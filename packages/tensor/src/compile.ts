// compile(fn): traces tfjs code once per input signature and runs the trace as one native call.
import { type Tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import { type Attribute, AttributeKind } from "./attribute.ts"
import type { TensorMeta } from "./binding.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { describe, releaseFunction, reregister, Trace, type TracedFunction } from "./trace.ts"

/**
 * How a traced function runs: `xla` compiles it whole; `graph` runs its ops one by one, with runs of element-wise ops clustered and
 * compiled by XLA between the matrix products; `eager` does not trace.
 */
export type CompileMode = "xla" | "graph" | "eager"

export interface CompileOptions {
  readonly mode: CompileMode
  /** Shown in errors. */
  readonly name: string
  /** `graph` mode: whether XLA compiles runs of element-wise ops too, beyond explicit clusters; true unless said otherwise. */
  readonly autoCluster?: boolean
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
  /**
   * Drops what its ops keep between calls, the copies of weights that `raw.packedMatMul` made: the next call makes them anew, which costs a tenth of a
   * second where a new trace costs seconds. Not while lanes run.
   */
  forgetKernels(): void
  dispose(): void
}

/**
 * ConfigProto with graph_options (10): optimizer_options (3) global_jit_level (5) ON_2, and rewrite_options (10) disable_meta_optimizer
 * (19): a rewriter that is given a config takes assignments for dead code.
 */
const clustered: readonly Attribute[] = [{ name: "config_proto", type: AttributeKind.bytes, value: [0x52, 9, 0x1a, 2, 0x28, 2, 0x52, 3, 0x98, 1, 1] }]
const mustCompile: readonly Attribute[] = [{ name: "_XlaMustCompile", type: AttributeKind.bool, value: true }]

/** Wraps what an op returned as a tfjs tensor of the current scope. */
export function wrap(backend: TensorflowBackend, meta: TensorMeta): Tensor {
  return backend.createOutputTensor(meta)
}

/** dtype and shape of an argument. */
export type Signature = readonly { readonly dtype: number; readonly shape: readonly number[] }[]

/** What `fn` recorded into an open trace. */
export interface Recording {
  readonly trace: Trace
  readonly inputs: readonly number[]
  readonly outputs: readonly TensorMeta[]
}

/** Runs `fn` on nodes of a new trace, which the caller ends or closes. Nothing that `fn` does may depend on values. */
export function record(backend: TensorflowBackend, name: string, fn: (...inputs: Tensor[]) => Tensor[], signature: Signature): Recording {
  const open = new Trace(backend.binding)
  try {
    const inputs = signature.map(({ dtype, shape }) => open.argument(dtype, shape))
    const outputs: TensorMeta[] = []
    tidy(() => {
      for (const tensor of fn(...inputs.map((meta) => wrap(backend, meta)))) {
        // A tensor from outside becomes a node here, before the scope ends and it may be disposed.
        const id = open.node(backend.idOf(tensor))
        outputs.push({ id, shape: [...tensor.shape], dtype: describe(backend.binding, id).dtype })
      }
    })
    return { trace: open, inputs: inputs.map((meta) => meta.id), outputs }
  } catch (cause) {
    open.close()
    throw named(name, cause)
  }
}

/** Traces `fn` for the given argument types. */
export function trace(backend: TensorflowBackend, name: string, fn: (...inputs: Tensor[]) => Tensor[], signature: Signature): TracedFunction {
  const recording = record(backend, name, fn, signature)
  try {
    return recording.trace.end(name, recording.inputs, recording.outputs.map((meta) => meta.id))
  } catch (cause) {
    throw named(name, cause)
  }
}

function named(name: string, cause: unknown): CohortError {
  const message = `${name}: ${messageOf(cause)}`
  if (!isCohortError(cause)) return new CohortError("tensor_failed", message, { cause })
  return new CohortError(cause.code, message, { cause, ...(cause.hint === undefined ? {} : { hint: cause.hint }) })
}

/** Text that two calls share exactly when they can share a trace. */
export function signatureKey(signature: Signature): string {
  return signature.map(({ dtype, shape }) => `${dtype}[${shape.join(",")}]`).join(" ")
}

export function createCompile(backend: TensorflowBackend, withPrecision: <T>(precision: MatMulPrecision, body: () => T) => T) {
  return (fn: (...inputs: Tensor[]) => Tensor[], options: CompileOptions): CompiledFunction => {
    const cache = new Map<string, TracedFunction>()
    const precision = options.precision ?? "f32"
    const attributes = options.mode === "xla" ? mustCompile : (options.autoCluster ?? true) ? clustered : []
    const call = (...inputs: Tensor[]): Tensor[] => {
      if (options.mode === "eager") return withPrecision(precision, () => tidy(() => fn(...inputs)))
      const { binding } = backend
      // Called by another function that is being traced: it becomes part of that one.
      if (binding.recorder !== undefined) return withPrecision(precision, () => fn(...inputs))
      const ids = inputs.map((input) => backend.idOf(input))
      const signature = ids.map((id) => binding.describe(id))
      const key = signatureKey(signature)
      let traced = cache.get(key)
      if (traced === undefined) cache.set(key, (traced = withPrecision(precision, () => trace(backend, options.name, fn, signature))))
      const metas = binding.executeOp(traced.name, attributes, [...ids, ...traced.captures], traced.outputs.length, traced.outputs)
      return metas.map((meta) => wrap(backend, meta))
    }
    return Object.assign(call, {
      signatures: () => [...cache.keys()],
      forgetKernels() {
        for (const traced of cache.values()) reregister(backend.binding, traced)
      },
      dispose() {
        for (const traced of cache.values()) releaseFunction(backend.binding, traced)
        cache.clear()
      },
    })
  }
}
