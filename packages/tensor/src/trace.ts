// Records ops into a TensorFlow graph and turns the graph into a function. Traces nest: the inner one takes what it uses of the
// outer one as arguments.
import { CohortError } from "@cohort/errors"
import { createHash } from "node:crypto"
import { type Attribute, AttributeKind, type AttributeCalls, dimensions, graphCalls, setAttribute } from "./attribute.ts"
import { type Binding, firstNodeId, type HostArray, type Recorder, type TensorMeta } from "./binding.ts"
import { byteSize, DType, sizeOf } from "./dtype.ts"
import type { Address } from "./library.ts"

interface Node {
  readonly trace: Trace
  /** Name within its graph: the same in each run of the program. */
  readonly label: string
  readonly op: Address
  readonly output: number
  readonly shape: number[]
  readonly dtype: number
}

/** A function in TensorFlow's library, callable by name. */
export interface TracedFunction {
  readonly name: string
  readonly function: Address
  /** Ids passed after the arguments at each call: tensors, or nodes of the enclosing trace. */
  readonly captures: readonly number[]
  readonly outputs: readonly { readonly shape: readonly number[]; readonly dtype: number }[]
  readonly nodes: number
  readonly argumentTypes: readonly number[]
  /** Functions that this one calls and nobody else owns: they go when it goes. */
  readonly owned: readonly TracedFunction[]
}

/** Ops whose first inputs form one list, with how many inputs stay outside it. */
const listOps: Readonly<Record<string, number>> = { ConcatV2: 1, Pack: 0, AddN: 0, IdentityN: 0 }

/** Ops whose last inputs form one list, with how many inputs come before it. */
const tailLists: Readonly<Record<string, number>> = { _MklNativeFusedMatMul: 2 }

let nextNodeId = firstNodeId
const namesInUse = new Set<string>()

/** `content` where it is free, else with a number: two functions can do the same. */
function freeName(content: string): string {
  let name = content
  for (let i = 1; namesInUse.has(name); i++) name = `${content}_${i}`
  return name
}
const nodes = new Map<number, Node>()

export class Trace implements Recorder {
  readonly #binding: Binding
  readonly #attributeCalls: AttributeCalls
  readonly #graph: Address
  readonly #known = new Map<number, number>()
  readonly #captures: number[] = []
  readonly #ids: number[] = []
  /** Of everything recorded. XLA's cache on disk knows a program by its function's name, so the name must follow from the content. */
  readonly #digest = createHash("sha256")
  readonly #functions = new Set<string>()
  readonly #owned: TracedFunction[] = []
  readonly #parent: Recorder | undefined
  /** Latest value of each variable that was read or assigned, by the id of its handle. */
  readonly #variables = new Map<number, { value: TensorMeta; read: number | undefined; dirty: boolean }>()
  /** bf16 nodes made of float32 ones, by the id of the latter; and the other way round, with whether the float32 one was used yet. */
  readonly #narrowed = new Map<number, TensorMeta>()
  readonly #widened = new Map<number, { readonly source: TensorMeta; used: boolean }>()
  #count = 0
  #ended = false
  #closed = false

  constructor(binding: Binding) {
    this.#binding = binding
    this.#attributeCalls = graphCalls(binding.library)
    this.#graph = binding.library.c.TF_NewGraph() as Address
    this.#parent = binding.recorder
    binding.setRecorder(this)
  }

  owns(id: number): boolean {
    return nodes.get(id)?.trace === this
  }

  #begin(op: string): Address {
    return this.#binding.library.c.TF_NewOperation(this.#graph, this.#binding.library.name(op), Buffer.from(`n${this.#count++}\0`)) as Address
  }

  #finish(description: Address, what: string): Address {
    const op = this.#binding.library.c.TF_FinishOperation(description, this.#binding.library.status) as Address
    this.#binding.library.check(what)
    return op
  }

  #output(op: Address, output: number, known?: { shape: readonly number[]; dtype: number }): TensorMeta {
    const { c, status, check } = this.#binding.library
    const dtype = known?.dtype ?? c.TF_OperationOutputType(op, output)
    const shape: number[] = known === undefined ? [] : [...known.shape]
    if (known === undefined) {
      const rank = c.TF_GraphGetTensorNumDims(this.#graph, op, output, status)
      check("rank")
      if (rank < 0) throw new CohortError("tensor_failed", "an op inside a trace has no static shape")
      const sizes = new BigInt64Array(Math.max(1, rank))
      c.TF_GraphGetTensorShape(this.#graph, op, output, sizes, rank, status)
      check("shape")
      for (let i = 0; i < rank; i++) shape.push(Number(sizes[i]))
    } else {
      // Function calls and variables carry no static shape of their own: restate what is known.
      c.TF_GraphSetTensorShape(this.#graph, op, output, dimensions(shape), shape.length, status)
      check("set shape")
    }
    const id = nextNodeId++
    nodes.set(id, { trace: this, label: `${this.#count}:${output}`, op, output, shape, dtype })
    this.#ids.push(id)
    return { id, shape, dtype }
  }

  /** Adds an argument of the function. */
  argument(dtype: number, shape: readonly number[]): TensorMeta {
    const { c, name } = this.#binding.library
    this.#digest.update(`argument ${dtype} [${shape.join()}]\n`)
    const description = this.#begin("Placeholder")
    c.TF_SetAttrType(description, name("dtype"), dtype)
    c.TF_SetAttrShape(description, name("shape"), dimensions(shape), shape.length)
    return this.#output(this.#finish(description, "argument"), 0, { dtype, shape })
  }

  #constant(values: HostArray, shape: readonly number[], dtype: number): TensorMeta {
    const { c, name, status, check, view } = this.#binding.library
    const bytes = sizeOf(shape) * byteSize(dtype as DType)
    this.#digest.update(`constant ${dtype} [${shape.join()}]\n`).update(new Uint8Array(values.buffer, values.byteOffset, bytes))
    const tensor = c.TF_AllocateTensor(dtype, dimensions(shape), shape.length, bytes) as Address
    if (bytes > 0) view(c.TF_TensorData(tensor) as Address, bytes).set(new Uint8Array(values.buffer, values.byteOffset, bytes))
    const description = this.#begin("Const")
    c.TF_SetAttrType(description, name("dtype"), dtype)
    c.TF_SetAttrTensor(description, name("value"), tensor, status)
    check("constant")
    const op = this.#finish(description, "constant")
    c.TF_DeleteTensor(tensor)
    return this.#output(op, 0)
  }

  /** The node of this graph that stands for `id`. */
  node(id: number): number {
    if (this.owns(id)) return id
    const known = this.#known.get(id)
    if (known !== undefined) return known
    let made: TensorMeta
    const outer = nodes.get(id)
    if (outer !== undefined) made = this.#capture(id, outer.dtype, outer.shape)
    else {
      const { shape, dtype, host } = this.#binding.describe(id)
      if (host === undefined) {
        made = this.#capture(id, dtype, shape)
        this.#binding.retain(id)
      } else made = this.#constant(host, shape, dtype)
    }
    this.#known.set(id, made.id)
    return made.id
  }

  #capture(id: number, dtype: number, shape: readonly number[]): TensorMeta {
    const argument = this.argument(dtype, shape)
    this.#captures.push(id)
    return argument
  }

  record(op: string, attributes: readonly Attribute[], inputs: readonly number[], outputs: number): TensorMeta[] {
    if (op === "Cast") return [this.#cast(attributes, inputs[0]!)]
    const made = this.#add(op, attributes, inputs.map((id) => this.#fresh(id)))
    return Array.from({ length: outputs }, (_, i) => this.#output(made, i))
  }

  /** The bf16 node that float32 node `id` was widened from. */
  sourceOf(id: number): TensorMeta | undefined {
    return this.#widened.get(id)?.source
  }

  /**
   * A cast of bf16 that is there already: what was widened is narrowed to what it was, and what was narrowed once is not narrowed again. A cluster of
   * XLA's returns each of two equal casts, one as a copy of the other.
   */
  #cast(attributes: readonly Attribute[], input: number): TensorMeta {
    const id = this.node(input)
    const to = attributes.find(({ name }) => name === "DstT")?.value
    const from = nodes.get(id)!
    const narrows = from.dtype === DType.float32 && to === DType.bfloat16
    const there = narrows ? (this.#widened.get(id)?.source ?? this.#narrowed.get(id)) : undefined
    if (there !== undefined) return there
    const made = this.#output(this.#add("Cast", attributes, [id]), 0)
    if (narrows) this.#narrowed.set(id, made)
    if (from.dtype === DType.bfloat16 && to === DType.float32) this.#widened.set(made.id, { source: { id, shape: from.shape, dtype: from.dtype }, used: false })
    return made
  }

  /**
   * What was widened is widened anew for each further op that takes it: done within that op's cluster it costs nothing, while between clusters, as from the
   * forward to the backward pass, the bf16 tensor is half as large.
   */
  #fresh(input: number): number {
    const id = this.node(input)
    const widened = this.#widened.get(id)
    if (widened === undefined) return id
    if (!widened.used) {
      widened.used = true
      return id
    }
    const attributes: Attribute[] = [{ name: "SrcT", type: AttributeKind.type, value: DType.bfloat16 }, { name: "DstT", type: AttributeKind.type, value: DType.float32 }, { name: "Truncate", type: AttributeKind.bool, value: false }]
    return this.#output(this.#add("Cast", attributes, [widened.source.id]), 0).id
  }

  #add(op: string, attributes: readonly Attribute[], inputs: readonly number[], control?: number): Address {
    const { c } = this.#binding.library
    const ids = inputs.map((id) => this.node(id))
    this.#digest.update(`${op} ${labels(ids)} ${JSON.stringify(attributes)} ${control === undefined ? "" : labels([control])}\n`)
    const description = this.#begin(op)
    const outside = listOps[op]
    const listed = outside === undefined ? 0 : ids.length - outside
    if (listed > 0) c.TF_AddInputList(description, locations(ids.slice(0, listed)), listed)
    const single = tailLists[op] ?? ids.length
    for (const id of ids.slice(listed, single)) {
      const { op: source, output } = nodes.get(id)!
      c.TF_AddInput(description, source, output)
    }
    if (single < ids.length) c.TF_AddInputList(description, locations(ids.slice(single)), ids.length - single)
    if (control !== undefined) c.TF_AddControlInput(description, nodes.get(control)!.op)
    for (const attribute of attributes) if (!(listed > 0 && attribute.name === "N")) this.#setAttribute(description, attribute)
    return this.#finish(description, op)
  }

  #setAttribute(description: Address, attribute: Attribute): void {
    setAttribute(this.#attributeCalls, this.#binding.library, description, attribute)
  }

  #addLibrary(traced: TracedFunction): void {
    if (this.#functions.has(traced.name)) return
    const { c, status, check } = this.#binding.library
    c.TF_GraphCopyFunction(this.#graph, traced.function, null, status)
    check(traced.name)
    this.#functions.add(traced.name)
  }

  /** Calls another function from this graph; with `xla` its body is compiled as one cluster. */
  call(traced: TracedFunction, inputs: readonly number[], xla: boolean): TensorMeta[] {
    this.#addLibrary(traced)
    const attributes: Attribute[] = xla ? [{ name: "_XlaMustCompile", type: AttributeKind.bool, value: true }] : []
    const op = this.#add(traced.name, attributes, [...inputs, ...traced.captures])
    return traced.outputs.map((output, i) => this.#output(op, i, output))
  }

  /** Leaves the trace open but records into the enclosing one again. */
  suspend(): void {
    this.#binding.setRecorder(this.#parent)
  }

  /** Ids of the enclosing scope that this trace takes as further arguments, so far. */
  get captures(): readonly number[] {
    return this.#captures
  }

  /** Makes the life of `traced` end with the function that this trace becomes. */
  own(traced: TracedFunction): void {
    this.#owned.push(traced)
  }

  /** `while (condition(state)) state = body(state)`; state keeps its shapes. Both functions take the state and nothing else. */
  whileLoop(condition: TracedFunction, body: TracedFunction, state: readonly number[]): TensorMeta[] {
    this.#addLibrary(condition)
    this.#addLibrary(body)
    const { c } = this.#binding.library
    const ids = state.map((id) => this.node(id))
    this.#digest.update(`while ${condition.name} ${body.name} ${labels(ids)}\n`)
    const description = this.#begin("StatelessWhile")
    c.TF_AddInputList(description, locations(ids), ids.length)
    const metas = ids.map((id) => nodes.get(id)!)
    this.#setAttribute(description, { name: "T", type: AttributeKind.typeList, value: metas.map((meta) => meta.dtype) })
    // Inlined into the graph around it, or the passes that choose oneDNN kernels never see the body.
    this.#setAttribute(description, { name: "_lower_using_switch_merge", type: AttributeKind.bool, value: true })
    this.#setAttribute(description, { name: "cond", type: AttributeKind.func, value: condition.name })
    this.#setAttribute(description, { name: "body", type: AttributeKind.func, value: body.name })
    const op = this.#finish(description, "while")
    return metas.map((meta, i) => this.#output(op, i, meta))
  }

  /** The value of a variable at this point of the trace. */
  readVariable(handle: number, dtype: number, shape: readonly number[]): TensorMeta {
    // The enclosing trace may have assigned it: the value comes from there, as a capture.
    if (this.#parent instanceof Trace) return this.#parent.readVariable(handle, dtype, shape)
    const known = this.#variables.get(handle)
    if (known !== undefined) return known.value
    const op = this.#add("ReadVariableOp", [{ name: "dtype", type: AttributeKind.type, value: dtype }], [handle])
    const value = this.#output(op, 0, { dtype, shape })
    this.#variables.set(handle, { value, read: value.id, dirty: false })
    return value
  }

  /** Makes `value` the variable's value from here on; the store happens once, when the function has run. */
  assignVariable(handle: number, value: TensorMeta): void {
    if (this.#parent !== undefined)
      throw new CohortError("tensor_failed", "a variable was assigned inside a cluster or a loop", { hint: "Return the value, and assign it in the compiled function itself." })
    const known = this.#variables.get(handle)
    this.#variables.set(handle, { value: { ...value, id: this.node(value.id) }, read: known?.read, dirty: true })
  }

  /** Closes the trace. The function's outputs are `outputs`, its inputs `inputs` and then its captures, in the order given. */
  end(title: string, inputs: readonly number[], outputs: readonly number[], captures: readonly number[] = this.#captures): TracedFunction {
    const { c, name, status, check } = this.#binding.library
    try {
      const results = outputs.map((id) => this.node(id))
      for (const [handle, variable] of this.#variables)
        if (variable.dirty)
          // Reads of the old value must come first: the store waits for the read.
          this.#add("AssignVariableOp", [{ name: "dtype", type: AttributeKind.type, value: variable.value.dtype }], [handle, variable.value.id], variable.read)
      if (captures.length < this.#captures.length) throw new CohortError("internal", "captures were added after their order was fixed")
      const all = [...inputs, ...captures.map((id) => this.node(id))]
      this.#digest.update(`end ${labels(all)} ${labels(results)}\n`)
      const functionName = freeName(`cohort_${title.replaceAll(/[^A-Za-z0-9_]/g, "_")}_${this.#digest.digest("hex").slice(0, 16)}`)
      const made = c.TF_GraphToFunction(
        this.#graph, name(functionName), 0, -1, null, all.length, locations(all), results.length, locations(results), null, null, null, status,
      ) as Address
      check("function")
      c.TFE_ContextAddFunction(this.#binding.context, made, status)
      check("add function")
      namesInUse.add(functionName)
      this.#ended = true
      return {
        name: functionName,
        function: made,
        captures: [...captures],
        owned: [...this.#owned],
        outputs: results.map((id) => ({ shape: nodes.get(id)!.shape, dtype: nodes.get(id)!.dtype })),
        nodes: this.#count,
        argumentTypes: all.map((id) => nodes.get(id)!.dtype),
      }
    } finally {
      this.close()
    }
  }

  /** Closes the trace; without {@link Trace.end} before, what it captured and owns is released. Safe to call twice. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const id of this.#ids) nodes.delete(id)
    this.#binding.library.c.TF_DeleteGraph(this.#graph)
    this.#binding.setRecorder(this.#parent)
    if (this.#ended) return
    for (const id of this.#captures) this.#binding.deleteTensor(id)
    for (const traced of this.#owned) releaseFunction(this.#binding, traced)
  }
}

/** Removes a function from the runtime and lets go of the tensors that it captured. */
export function releaseFunction(binding: Binding, traced: TracedFunction): void {
  const { c, name, status, check } = binding.library
  for (const id of traced.captures) binding.deleteTensor(id)
  c.TFE_ContextRemoveFunction(binding.context, name(traced.name), status)
  check("remove function")
  namesInUse.delete(traced.name)
  c.TF_DeleteFunction(traced.function)
  for (const owned of traced.owned) releaseFunction(binding, owned)
}

/** Takes a function from the runtime and gives it back: its kernels go, and with them what they keep. */
export function reregister(binding: Binding, traced: TracedFunction): void {
  const { c, name, status, check } = binding.library
  c.TFE_ContextRemoveFunction(binding.context, name(traced.name), status)
  check("remove function")
  c.TFE_ContextAddFunction(binding.context, traced.function, status)
  check("add function")
}

/** The innermost open trace of a binding. */
export function currentTrace(binding: Binding): Trace | undefined {
  const recorder = binding.recorder
  if (recorder === undefined || recorder instanceof Trace) return recorder
  throw new CohortError("internal", "an unknown recorder is installed")
}

/** dtype and shape of anything that ops may take: a tensor or a node. */
export function describe(binding: Binding, id: number): { shape: readonly number[]; dtype: number } {
  const node = nodes.get(id)
  return node ?? binding.describe(id)
}

function labels(ids: readonly number[]): string {
  return ids.map((id) => nodes.get(id)!.label).join(" ")
}

/** TF_Output[]: pairs of operation pointer and output index, 16 bytes each. */
function locations(ids: readonly number[]): BigInt64Array {
  const out = new BigInt64Array(Math.max(2, 2 * ids.length))
  ids.forEach((id, i) => {
    const node = nodes.get(id)!
    out[2 * i] = BigInt(node.op)
    out[2 * i + 1] = BigInt(node.output)
  })
  return out
}
