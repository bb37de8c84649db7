// Keys and values of all slots in one resident variable that is read and written by rows: no call copies it whole.
// Rows are [layer, key or value, slot, head, position], each one head vector.
import { scalar, tensor, type Tensor, tidy } from "@tensorflow/tfjs-core"
import type { ModelConfig } from "@cohort/model"
import { DType, type RawOps } from "@cohort/tensor"
import { attributes } from "./attributes.ts"
import { filled } from "./ops.ts"

export interface SlotCache {
  /** Positions 0..length-1 of the slots, [2 L, slots, K, length, h], layer by layer keys before values. */
  gather(slots: readonly number[], length: number): Tensor
  /** Stores `rows` [2 L, slots, K, count, h] at positions start..start+count-1 of each slot. */
  scatter(slots: readonly number[], starts: readonly number[], count: number, rows: Tensor): void
  readonly bytes: number
  dispose(): void
}

/** @param dtype DType of the stored vectors */
export function createSlotCache(raw: RawOps, config: ModelConfig, slots: number, length: number, dtype: number): SlotCache {
  const { kvHeads, headDim, layers } = config
  const planes = 2 * layers
  const perSlot = kvHeads * length
  const rowCount = planes * slots * perSlot
  const type = attributes.type("dtype", dtype)
  const handle = tidy(() => raw.one("VarHandleOp", [], [type, attributes.shape("shape", [rowCount, headDim]), attributes.string("shared_name", `cohort.cache.${crypto.randomUUID()}`), attributes.string("container", "")]))
  tidy(() => raw.many("AssignVariableOp", [handle, filled(raw, [rowCount, headDim], raw.cast(scalar(0), dtype))], [type], 0))
  // First row of each plane and head; what a call adds is the slot's and the position's part.
  const origins = Int32Array.from({ length: planes * kvHeads }, (_, i) => Math.floor(i / kvHeads) * slots * perSlot + (i % kvHeads) * length)
  const origin = tensor(origins, [planes, 1, kvHeads, 1], "int32")
  const indices = (members: readonly number[], starts: readonly number[], count: number): Tensor => {
    const local = new Int32Array(members.length * count)
    members.forEach((slot, i) => {
      for (let t = 0; t < count; t++) local[i * count + t] = slot * perSlot + starts[i]! + t
    })
    return raw.add(origin, tensor(local, [1, members.length, 1, count], "int32"))
  }
  const gatherAttributes = [attributes.int("batch_dims", 0), attributes.bool("validate_indices", true), type, attributes.type("Tindices", DType.int32)]
  const scatterAttributes = [type, attributes.type("Tindices", DType.int32)]
  return {
    bytes: rowCount * headDim * (dtype === DType.bfloat16 ? 2 : 4),
    gather: (members, count) => tidy(() => raw.one("ResourceGather", [handle, indices(members, members.map(() => 0), count)], gatherAttributes, { shape: [planes, members.length, kvHeads, count, headDim], dtype })),
    scatter(members, starts, count, rows) {
      tidy(() => raw.many("ResourceScatterUpdate", [handle, indices(members, starts, count), rows], scatterAttributes, 0))
    },
    dispose() {
      tidy(() => raw.many("DestroyResourceOp", [handle], [attributes.bool("ignore_lookup_error", true)], 0))
      handle.dispose()
      origin.dispose()
    },
  }
}
