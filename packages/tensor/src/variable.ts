// Variables that stay resident in the runtime: read and assigned by traced functions, updated in place.
import { type Tensor } from "@tensorflow/tfjs-core"
import { type HostArray } from "./binding.ts"
import { wrap } from "./compile.ts"
import { attr } from "./raw.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { currentTrace, describe } from "./trace.ts"

/** A tensor with a name that outlives calls. Shape and dtype are fixed. */
export interface Variable {
  readonly name: string
  readonly shape: readonly number[]
  /** The value now, or at this point of the trace. Outside a trace the caller disposes it. */
  value(): Tensor
  /** Sets the value; inside a trace it takes effect when the compiled function has run. */
  assign(value: Tensor): void
  /** Sets the value from the host. */
  load(values: HostArray): void
  /** Copies the value to the host; bf16 comes as raw 16-bit words. */
  data(): HostArray
  dispose(): void
}

export function createVariableFactory(backend: TensorflowBackend) {
  const { binding } = backend
  let count = 0
  return (name: string, shape: readonly number[], dtype: number, initial: HostArray | Tensor): Variable => {
    // Two handles of one shared_name would be one variable: the number keeps them apart.
    const [handle] = binding.execute(
      "VarHandleOp",
      [attr.type("dtype", dtype), attr.shape("shape", shape), attr.string("shared_name", `${name}#${count++}`), attr.string("container", "")],
      [],
      1,
    )
    const id = handle!.id
    const store = (valueId: number): void => void binding.execute("AssignVariableOp", [attr.type("dtype", dtype)], [id, valueId], 0)
    const variable: Variable = {
      name,
      shape,
      value() {
        const trace = currentTrace(binding)
        return wrap(backend, trace === undefined ? binding.execute("ReadVariableOp", [attr.type("dtype", dtype)], [id], 1)[0]! : trace.readVariable(id, dtype, shape))
      },
      assign(value) {
        const valueId = backend.idOf(value)
        const trace = currentTrace(binding)
        if (trace === undefined) store(valueId)
        else trace.assignVariable(id, { id: valueId, shape: [...shape], dtype: describe(binding, valueId).dtype })
      },
      load(values) {
        const temporary = binding.createTensor(shape, dtype, values)
        store(temporary)
        binding.deleteTensor(temporary)
      },
      data() {
        const [read] = binding.execute("ReadVariableOp", [attr.type("dtype", dtype)], [id], 1)
        const values = binding.tensorDataSync(read!.id)
        binding.deleteTensor(read!.id)
        return values
      },
      dispose() {
        binding.execute("DestroyResourceOp", [attr.bool("ignore_lookup_error", true)], [id], 0)
        binding.deleteTensor(id)
      },
    }
    if (ArrayBuffer.isView(initial)) variable.load(initial)
    else variable.assign(initial)
    return variable
  }
}

/** bf16 words of float32 values, rounded to nearest even. */
export function toBfloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const out = new Uint16Array(values.length)
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!
    out[i] = (word & 0x7fffffff) > 0x7f800000 ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
  }
  return out
}

