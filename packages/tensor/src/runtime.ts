// The tensor runtime: one face over libtensorflow and the two backends that tfjs brings itself.
import { keep, memory, tensor, Tensor, tidy } from "@tensorflow/tfjs-core"
import { fromBfloat16, toBfloat16 } from "./bfloat16.ts"
import type { HostArray } from "./binding.ts"
import type { CompiledFunction, CompileOptions } from "./compile.ts"
import type { RawOps } from "./raw.ts"
import type { Variable } from "./variable.ts"

export type BackendName = "tensorflow" | "wasm" | "cpu"

export interface RuntimeInfo {
  readonly backend: BackendName
  readonly version: string
  readonly device: string
  /** Of one op. */
  readonly threads: number
  /** Functions that run side by side in {@link TensorRuntime.lanes}; 1 on GPUs and on the fallback backends. */
  readonly lanes: number
  /** Why this backend and not a faster one; empty for tensorflow. */
  readonly because: string
}

/** Storage type of a variable. The fallback backends keep bf16 as float32. */
export type VariableType = "f32" | "bf16" | "i32"

export interface TensorRuntime {
  readonly info: RuntimeInfo
  /** See {@link CompiledFunction}. The fallback backends run `fn` eagerly at each call. */
  compile(fn: (...inputs: Tensor[]) => Tensor[], options: Partial<CompileOptions> & { readonly name: string }): CompiledFunction
  variable(name: string, shape: readonly number[], type: VariableType, initial: HostArray | readonly HostArray[] | Tensor): Variable
  /**
   * `while (condition(...state)) state = body(...state)` as one op of the function being compiled; shapes and dtypes of the state
   * stay. Both functions may use tensors of the scope around them. Outside compile() it loops in JavaScript. Not on the fallback
   * backends. No gradient.
   *
   * @example
   * const [i, total] = runtime.whileLoop!((i) => tf.less(i, 10), (i, total) => [tf.add(i, 1), tf.add(total, i)], [zero, zero])
   */
  whileLoop?(condition: (...state: Tensor[]) => Tensor, body: (...state: Tensor[]) => Tensor[], state: readonly Tensor[]): Tensor[]
  /**
   * A part of a function compiled in `graph` mode that XLA compiles as one program. It is traced once for each signature within a
   * compiled function and shared by all calls there (all layers, say), so `fn` must do the same each time: what differs between calls
   * comes as an argument. Its gradient is one program too, which computes the forward part again; only arguments get one, not what `fn`
   * uses of the scope around it, and not those at the positions `constants`. Outside compile() `fn` just runs. Not on the fallback
   * backends.
   *
   * @example
   * const swiglu = runtime.cluster!((gate, up) => [tf.mul(tf.mul(gate, tf.sigmoid(gate)), up)])
   */
  cluster?(fn: (...inputs: Tensor[]) => Tensor[], name?: string, constants?: readonly number[]): (...inputs: Tensor[]) => Tensor[]
  /**
   * Runs compiled functions side by side: what `bodies[i]` starts is queued in lane i, a thread of its own, and the call returns their
   * results when all lanes are done. Inside, start compiled functions; reading a value waits for it. Open the runtime with few
   * `threads` and as many `lanes`, or the lanes fight over cores. Not on the fallback backends.
   *
   * @throws CohortError `tensor_failed` with the first failure
   * @example
   * const [a, b] = runtime.lanes!([() => step(left), () => step(right)])
   */
  lanes?<T>(bodies: readonly (() => T)[]): T[]
  /** Ops beyond tfjs; undefined on the fallback backends. */
  readonly raw: RawOps | undefined
  /** Live tensors and their bytes: constant over steps, or something leaks. */
  counters(): { readonly tensors: number; readonly bytes: number }
  close(): void
}

/** Runtime over the current tfjs backend, without tracing. */
export function fallbackRuntime(info: RuntimeInfo): TensorRuntime {
  return {
    info,
    raw: undefined,
    compile(fn) {
      return Object.assign((...inputs: Tensor[]) => tidy(() => fn(...inputs)), { signatures: () => [], forgetKernels() {}, dispose() {} })
    },
    variable(name, shape, type, initial) {
      const host = (given: HostArray | readonly HostArray[]): Tensor => {
        const values = ArrayBuffer.isView(given) ? given : joined(given)
        return tidy(() => tensor(type === "bf16" && values instanceof Uint16Array ? fromBfloat16(values) : (values as Float32Array | Int32Array), [...shape], type === "i32" ? "int32" : "float32"))
      }
      let current = keep(initial instanceof Tensor ? initial.clone() : host(initial))
      const replace = (next: Tensor): void => {
        const old = current
        current = keep(next)
        old.dispose()
      }
      return {
        name,
        shape,
        value: () => current.clone(),
        assign: (value) => replace(value.clone()),
        load: (values) => replace(host(values)),
        data: () => current.dataSync().slice() as HostArray,
        withBytes(wanted, use) {
          const values = current.dataSync() as Float32Array
          const shown = wanted === "bf16" ? toBfloat16(values) : values
          use(new Uint8Array(shown.buffer, shown.byteOffset, shown.byteLength))
        },
        dispose: () => current.dispose(),
      }
    },
    counters: () => ({ tensors: memory().numTensors, bytes: memory().numBytes }),
    close() {},
  }
}

/** Parts one after the other, all of the first one's type. */
function joined(parts: readonly HostArray[]): HostArray {
  const [first] = parts
  if (first === undefined || parts.length === 1) return first ?? new Float32Array(0)
  const bytes = new Uint8Array(parts.reduce((total, part) => total + part.byteLength, 0))
  let begin = 0
  for (const part of parts) {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), begin)
    begin += part.byteLength
  }
  return first instanceof Uint16Array ? new Uint16Array(bytes.buffer) : first instanceof Int32Array ? new Int32Array(bytes.buffer) : new Float32Array(bytes.buffer)
}
