// The object of functions that tfjs's node kernels call, written over libtensorflow instead of the npm package's native addon.
// Ops run eagerly, unless a trace is open: then they are recorded into its graph.
import { CohortError } from "@cohort/errors"
import { type Attribute, AttributeKind, dimensions, eagerCalls, setAttribute } from "./attribute.ts"
import { byteSize, DType, sizeOf } from "./dtype.ts"
import type { Address, Library } from "./library.ts"

/** What an op returns for each output. */
export interface TensorMeta {
  readonly id: number
  readonly shape: number[]
  readonly dtype: number
}

export type HostArray = Float32Array | Int32Array | Uint8Array | Uint16Array | BigInt64Array

/** What is known of an output before it is computed. */
export type Known = Pick<TensorMeta, "shape" | "dtype"> | { readonly shape: readonly number[]; readonly dtype: number }

/** Records ops instead of running them; see trace.ts. */
export interface Recorder {
  record(op: string, attributes: readonly Attribute[], inputs: readonly number[], outputs: number): TensorMeta[]
  /** True when `id` names a node of a graph rather than a tensor. */
  owns(id: number): boolean
}

/** Ids from here on are graph nodes. */
export const firstNodeId = 2 ** 40
/** Host tensors up to this many elements become constants of a traced graph; larger ones are passed at each call. */
const constantElements = 4096

interface Entry {
  readonly handle: Address
  readonly shape: number[]
  readonly dtype: number
  /** Small host values, kept so that a trace can make them constants without reading back. */
  readonly host: HostArray | undefined
  references: number
}

export type Binding = ReturnType<typeof createBinding>

/** Threads that one op may use, and how many ops may run side by side. */
export interface ContextOptions {
  readonly intraOpThreads: number
  readonly interOpThreads: number
}

/** Little-endian protobuf ConfigProto with fields 2 (intra_op_parallelism_threads) and 5 (inter_op_parallelism_threads). */
function configProto(options: ContextOptions): Uint8Array {
  return new Uint8Array([0x10, options.intraOpThreads & 0x7f, 0x28, options.interOpThreads & 0x7f])
}

/**
 * Opens an eager context.
 * @throws CohortError `tensor_failed` from every op that TensorFlow refuses, with its message
 */
export function createBinding(library: Library, options: ContextOptions) {
  const { c, check, status, name } = library
  const contextOptions = c.TFE_NewContextOptions() as Address
  const config = configProto(options)
  c.TFE_ContextOptionsSetConfig(contextOptions, config, config.length, status)
  check("context options")
  const context = c.TFE_NewContext(contextOptions, status) as Address
  check("context")
  c.TFE_DeleteContextOptions(contextOptions)
  const device = chooseDevice(library, context)

  const calls = eagerCalls(library, () => {
    throw new CohortError("tensor_failed", "functions can only be named inside a trace")
  })

  const entries = new Map<number, Entry>()
  let nextId = 0
  let recorder: Recorder | undefined
  const results = new BigUint64Array(4096)
  const resultCount = new Int32Array(1)
  let bytesAlive = 0
  const lanes: Address[] = []
  let closed = false

  function put(handle: Address, shape: number[], dtype: number, host?: HostArray): number {
    const id = nextId++
    entries.set(id, { handle, shape, dtype, host, references: 1 })
    bytesAlive += sizeOf(shape) * byteSize(dtype as DType)
    return id
  }

  function entry(id: number): Entry {
    const found = entries.get(id)
    if (closed) throw new CohortError("tensor_failed", "the tensor runtime is closed")
    if (found === undefined) throw new CohortError("tensor_failed", `tensor ${id} is disposed or belongs to a trace that has ended`)
    return found
  }

  function adopt(handle: Address, known: Known | undefined): TensorMeta {
    if (known !== undefined) {
      const shape = [...known.shape]
      return { id: put(handle, shape, known.dtype), shape, dtype: known.dtype }
    }
    const rank = c.TFE_TensorHandleNumDims(handle, status)
    const shape: number[] = []
    for (let i = 0; i < rank; i++) shape.push(Number(c.TFE_TensorHandleDim(handle, i, status)))
    const dtype = c.TFE_TensorHandleDataType(handle)
    return { id: put(handle, shape, dtype), shape, dtype }
  }

  /** `known` spares asking for shapes, which in a lane would wait for the op. */
  function execute(op: string, attributes: readonly Attribute[], inputs: readonly number[], outputs: number, known?: readonly Known[]): TensorMeta[] {
    const handle = c.TFE_NewOp(context, name(op), status) as Address
    check(op)
    try {
      for (const id of inputs) c.TFE_OpAddInput(handle, entry(id).handle, status)
      check(op)
      for (const attribute of attributes) setAttribute(calls, library, handle, attribute)
      resultCount[0] = outputs
      c.TFE_Execute(handle, results, resultCount, status)
      check(op)
      const out: TensorMeta[] = []
      for (let i = 0; i < resultCount[0]; i++) out.push(adopt(Number(results[i]) as Address, known?.[i]))
      return out
    } finally {
      c.TFE_DeleteOp(handle)
    }
  }

  return {
    // Names and numbers that tfjs's kernels read from the addon.
    TF_FLOAT: DType.float32,
    TF_INT32: DType.int32,
    TF_UINT8: DType.uint8,
    TF_STRING: DType.string,
    TF_COMPLEX64: 8,
    TF_INT64: DType.int64,
    TF_BOOL: DType.bool,
    TF_RESOURCE: DType.resource,
    TF_ATTR_STRING: AttributeKind.string,
    TF_ATTR_INT: AttributeKind.int,
    TF_ATTR_FLOAT: AttributeKind.float,
    TF_ATTR_BOOL: AttributeKind.bool,
    TF_ATTR_TYPE: AttributeKind.type,
    TF_ATTR_SHAPE: AttributeKind.shape,
    TF_Version: library.version,
    isUsingGpuDevice: () => device.gpu,
    getNumOfTensors: () => entries.size,
    getNumOfSavedModels: () => 0,

    /** Copies `values`, or several arrays one after the other, into a new tensor and returns its id. */
    createTensor(shape: readonly number[], dtype: number, given: HostArray | readonly HostArray[]): number {
      const pieces = (ArrayBuffer.isView(given) ? [given] : given).map((values) =>
        // tfjs may keep the numbers that a bool tensor was made from.
        dtype === DType.bool && !(values instanceof Uint8Array) ? Uint8Array.from(values as Int32Array, (value) => (value === 0 ? 0 : 1)) : values)
      const bytes = sizeOf(shape) * byteSize(dtype as DType)
      const givenBytes = pieces.reduce((total, piece) => total + piece.byteLength, 0)
      if (givenBytes !== bytes)
        throw new CohortError("tensor_failed", `a tensor of shape [${shape.join(", ")}] needs ${bytes} bytes, ${givenBytes} given`)
      const tensor = c.TF_AllocateTensor(dtype, dimensions(shape), shape.length, bytes) as Address
      if (bytes > 0) {
        const target = library.view(c.TF_TensorData(tensor) as Address, bytes)
        let begin = 0
        for (const piece of pieces) {
          target.set(new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength), begin)
          begin += piece.byteLength
        }
      }
      let handle = c.TFE_NewTensorHandle(tensor, status) as Address
      c.TF_DeleteTensor(tensor)
      check("createTensor")
      // GPU kernels read shapes and indices from the host, so int32 stays there.
      if (device.gpu && dtype !== DType.int32) {
        const moved = c.TFE_TensorHandleCopyToDevice(handle, context, name(device.name), status) as Address
        c.TFE_DeleteTensorHandle(handle)
        check("copy to device")
        handle = moved
      }
      return put(handle, [...shape], dtype, sizeOf(shape) <= constantElements && pieces.length === 1 ? pieces[0]!.slice() : undefined)
    },
    /** Drops one reference; the tensor goes with the last. */
    deleteTensor(id: number): void {
      // Graph nodes go with their graph; after close() everything is gone already.
      if (id >= firstNodeId || closed) return
      const found = entry(id)
      if (--found.references > 0) return
      c.TFE_DeleteTensorHandle(found.handle)
      bytesAlive -= sizeOf(found.shape) * byteSize(found.dtype as DType)
      entries.delete(id)
    },
    /** Keeps a tensor alive beyond its owner: a compiled function does so with what it captured. */
    retain(id: number): void {
      entry(id).references++
    },
    /** Copies a tensor to the host; 16-bit floats come as their raw bits. */
    tensorDataSync(id: number): HostArray {
      if (id >= firstNodeId)
        throw new CohortError("tensor_failed", "a value was read while a function was being traced", {
          hint: "Inside compile() a function sees shapes, not values: move the read outside, or use tf.where.",
        })
      const found = entry(id)
      const tensor = c.TFE_TensorHandleResolve(found.handle, status) as Address
      check("read")
      const bytes = Number(c.TF_TensorByteSize(tensor))
      const copy = new Uint8Array(bytes)
      if (bytes > 0) copy.set(library.view(c.TF_TensorData(tensor) as Address, bytes))
      c.TF_DeleteTensor(tensor)
      switch (found.dtype) {
        case DType.float32:
          return new Float32Array(copy.buffer)
        case DType.int32:
          return new Int32Array(copy.buffer)
        case DType.int64:
          return new BigInt64Array(copy.buffer)
        case DType.bfloat16:
        case DType.float16:
          return new Uint16Array(copy.buffer)
        default:
          return copy
      }
    },
    /** Shows the bytes of a tensor to `use`, which must not keep them. */
    withTensorBytes(id: number, use: (bytes: Uint8Array) => void): void {
      const tensor = c.TFE_TensorHandleResolve(entry(id).handle, status) as Address
      check("read")
      try {
        const bytes = Number(c.TF_TensorByteSize(tensor))
        use(bytes === 0 ? new Uint8Array(0) : library.view(c.TF_TensorData(tensor) as Address, bytes))
      } finally {
        c.TF_DeleteTensor(tensor)
      }
    },
    executeOp(op: string, attributes: readonly Attribute[], inputs: readonly number[], outputs: number, known?: readonly Known[]): TensorMeta[] {
      return recorder === undefined ? execute(op, attributes, inputs, outputs, known) : recorder.record(op, attributes, inputs, outputs)
    },

    // Ours, beyond the addon.
    execute,
    library,
    context,
    device,
    describe(id: number): { shape: number[]; dtype: number; host: HostArray | undefined } {
      const { shape, dtype, host } = entry(id)
      return { shape, dtype, host }
    },
    get recorder() {
      return recorder
    },
    setRecorder(next: Recorder | undefined): void {
      recorder = next
    },
    counters: () => ({ tensors: entries.size, bytes: bytesAlive }),
    inLane<T>(lane: number, body: () => T): T {
      while (lanes.length <= lane) lanes.push(c.TFE_NewExecutor(1, 0, 0) as Address)
      const before = c.TFE_ContextGetExecutorForThread(context) as Address
      c.TFE_ContextSetExecutorForThread(context, lanes[lane]!)
      try {
        return body()
      } finally {
        c.TFE_ContextSetExecutorForThread(context, before)
        c.TFE_DeleteExecutor(before)
      }
    },
    /** Waits until the lanes have done everything. @throws CohortError `tensor_failed` with the first failure, and forgets it */
    joinLanes(): void {
      let failure: unknown
      for (const lane of lanes) {
        c.TFE_ExecutorWaitForAllPendingNodes(lane, status)
        try {
          check("lane")
        } catch (thrown) {
          failure ??= thrown
          c.TFE_ExecutorClearError(lane)
        }
      }
      if (failure !== undefined) throw failure
    },
    close(): void {
      if (closed) return
      closed = true
      for (const lane of lanes) c.TFE_DeleteExecutor(lane)
      for (const { handle } of entries.values()) c.TFE_DeleteTensorHandle(handle)
      entries.clear()
      bytesAlive = 0
      c.TFE_DeleteContext(context)
    },
  }
}

function chooseDevice(library: Library, context: Address): { name: string; gpu: boolean } {
  const { c, check, status } = library
  const list = c.TFE_ContextListDevices(context, status) as Address
  check("list devices")
  let chosen = { name: "", gpu: false }
  for (let i = 0; i < c.TF_DeviceListCount(list); i++) {
    const kind = String(c.TF_DeviceListType(list, i, status))
    const deviceName = String(c.TF_DeviceListName(list, i, status))
    if (kind === "GPU") chosen = { name: deviceName, gpu: true }
    else if (kind === "CPU" && !chosen.gpu) chosen = { name: deviceName, gpu: false }
  }
  c.TF_DeleteDeviceList(list)
  return chosen
}

