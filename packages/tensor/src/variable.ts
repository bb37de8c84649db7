// Variables that stay resident in the runtime: read and assigned by traced functions, updated in place.
import { Tensor } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { type HostArray } from "./binding.ts"
import { wrap } from "./compile.ts"
import { DType } from "./dtype.ts"
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
  /** Sets the value from the host; several arrays are its parts one after the other. */
  load(values: HostArray | readonly HostArray[]): void
  /** Copies the value to the host; bf16 comes as raw 16-bit words. */
  data(): HostArray
  /** Shows the value of an f32 variable to `use`, little-endian, rounded to nearest where `type` is bf16. The bytes are the runtime's: they are gone when `use` returns. */
  withBytes(type: "f32" | "bf16", use: (bytes: Uint8Array) => void): void
  dispose(): void
}

export function createVariableFactory(backend: TensorflowBackend) {
  const { binding } = backend
  let count = 0
  return (name: string, shape: readonly number[], dtype: number, initial: HostArray | readonly HostArray[] | Tensor): Variable => {
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
      withBytes(type, use) {
        if (dtype !== DType.float32) throw new CohortError("tensor_failed", `${name} is no float32 variable and is not read as ${type}`)
        const [read] = binding.execute("ReadVariableOp", [attr.type("dtype", dtype)], [id], 1)
        const [value] = type === "f32" ? [read] : binding.execute("Cast", [attr.type("SrcT", dtype), attr.type("DstT", DType.bfloat16), attr.bool("Truncate", false)], [read!.id], 1)
        try {
          binding.withTensorBytes(value!.id, use)
        } finally {
          for (const each of new Set([read!.id, value!.id])) binding.deleteTensor(each)
        }
      },
      dispose() {
        binding.execute("DestroyResourceOp", [attr.bool("ignore_lookup_error", true)], [id], 0)
        binding.deleteTensor(id)
      },
    }
    if (initial instanceof Tensor) variable.assign(initial)
    else variable.load(initial)
    return variable
  }
}
