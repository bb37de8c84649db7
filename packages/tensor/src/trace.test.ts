import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Binding, createBinding } from "./binding.ts"
import { DType } from "./dtype.ts"
import { openLibrary } from "./library.ts"
import { attr } from "./raw.ts"
import { libraryPath } from "./testing/runtime.ts"
import { Trace } from "./trace.ts"

const cast = (trace: Trace, id: number, from: number, to: number): number => trace.record("Cast", [attr.type("SrcT", from), attr.type("DstT", to), attr.bool("Truncate", false)], [id], 1)[0]!.id

describe.skipIf(libraryPath === undefined)("casts in a trace", () => {
  let binding: Binding
  let trace: Trace
  beforeAll(() => {
    binding = createBinding(openLibrary(libraryPath!), { intraOpThreads: 1, interOpThreads: 1 })
    trace = new Trace(binding)
  })
  afterAll(() => {
    trace.close()
    binding.close()
  })

  test("what was narrowed is not narrowed again, and what was widened goes back to what it was", () => {
    const { id } = trace.argument(DType.float32, [2])
    const half = cast(trace, id, DType.float32, DType.bfloat16)
    expect(cast(trace, id, DType.float32, DType.bfloat16)).toBe(half)
    const wide = cast(trace, half, DType.bfloat16, DType.float32)
    expect(cast(trace, wide, DType.float32, DType.bfloat16)).toBe(half)
    // Rounding loses digits: the float32 argument itself is not what was widened.
    expect(wide).not.toBe(id)
    expect(cast(trace, id, DType.float32, DType.int32)).not.toBe(cast(trace, id, DType.float32, DType.int32))
  })

  test("the function computes the same, with a cast of its own for each op that takes a widened tensor", () => {
    const inner = new Trace(binding)
    const { id } = inner.argument(DType.float32, [2])
    const wide = cast(inner, cast(inner, id, DType.float32, DType.bfloat16), DType.bfloat16, DType.float32)
    const type = [attr.type("T", DType.float32)]
    const [square] = inner.record("Square", type, [wide], 1)
    const [sum] = inner.record("AddV2", type, [wide, square!.id], 1)
    const traced = inner.end("casts", [id], [sum!.id, wide])
    // Argument, two casts, Square, one more cast, AddV2.
    expect(traced.nodes).toBe(6)
    const input = binding.createTensor([2], DType.float32, new Float32Array([1.0001, 3]))
    const saved = binding.recorder
    binding.setRecorder(undefined)
    const outputs = binding.executeOp(traced.name, [], [input], 2, traced.outputs)
    expect([...(binding.tensorDataSync(outputs[0]!.id) as Float32Array)]).toEqual([2, 12])
    expect([...(binding.tensorDataSync(outputs[1]!.id) as Float32Array)]).toEqual([1, 3])
    binding.setRecorder(saved)
    for (const each of [input, ...outputs.map((meta) => meta.id)]) binding.deleteTensor(each)
  })
})
