// tfjs's node backend class over our binding. It also carries tensors of dtypes that tfjs does not know (bf16, resources): their
// tfjs label is a stand-in and only raw ops may take them.
import type { Tensor, TensorInfo } from "@tensorflow/tfjs-core"
import type { Binding, TensorMeta } from "./binding.ts"
import { DType } from "./dtype.ts"
import { loadNodeKernels } from "./node-kernels.ts"

const { NodeJSKernelBackend } = await loadNodeKernels()

interface TensorData {
  id: number
  values: Float32Array | Int32Array | Uint8Array | null
  shape: number[]
  dtype: number
  refCount: number
}

/** What we use of the class that tfjs ships; its own types name the addon. */
interface NodeBackend {
  createOutputTensor(meta: TensorMeta): Tensor
  getInputTensorIds(tensors: readonly TensorInfo[]): number[]
  executeSingleOutput(op: string, attributes: readonly object[], inputs: readonly TensorInfo[]): Tensor
  executeMultipleOutputs(op: string, attributes: readonly object[], inputs: readonly TensorInfo[], outputs: number): Tensor[]
  readonly tensorMap: { get(dataId: object): TensorData; set(dataId: object, data: TensorData): void }
}

const Base = NodeJSKernelBackend as new (binding: Binding, packageName: string) => NodeBackend

/** tfjs dtype that stands in for a TensorFlow one in tfjs's bookkeeping. */
const standIn: Readonly<Record<number, number>> = { [DType.bfloat16]: DType.float32, [DType.float16]: DType.float32, [DType.uint32]: DType.int32, [DType.int64]: DType.int32, [DType.resource]: DType.int32 }

export class TensorflowBackend extends Base {
  readonly binding: Binding

  constructor(binding: Binding) {
    super(binding, "@cohort/tensor")
    this.binding = binding
  }

  override createOutputTensor(meta: TensorMeta): Tensor {
    const label = standIn[meta.dtype]
    const tensor = super.createOutputTensor(label === undefined ? meta : { ...meta, dtype: label })
    if (label !== undefined) this.tensorMap.get(tensor.dataId).dtype = meta.dtype
    return tensor
  }

  /** Id of a tensor, or of its node while tracing; uploads host values at first use. */
  idOf(tensor: TensorInfo): number {
    return this.getInputTensorIds([tensor])[0]!
  }
}
