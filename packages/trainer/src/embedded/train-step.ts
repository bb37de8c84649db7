// The training step of the embedded backend: forward and backward of one micro-batch, and the optimizer's update, over weights, gradients
// and moments that stay resident. Where the runtime has lanes, each computes a part: of the rows, or of the parameters.
import { addN, gather, keep, mul, reshape, scalar, slice, tensor, type Tensor, tensor1d, tidy, valueAndGrads, type Scalar, type Tensor1D } from "@tensorflow/tfjs-core"
import { type MicroBatch, splitRows } from "@cohort/batching"
import { addMetrics, objectiveKey, type ObjectiveMetrics, objectiveNeeds, objectiveScalars, type ObjectiveSpec, policyObjective, unpackMetrics } from "@cohort/loss"
import { type AdamWSettings, adamW, globalNorm, HEAD_CHUNKS_FROM, hiddenStates, type ModelConfig, type Parameters, tokenScores, type Weights } from "@cohort/model"
import { type CompiledFunction, type CompileMode, DType, inLanes, type MatMulPrecision, type TensorRuntime, type Variable } from "@cohort/tensor"
import type { OptimizerStep } from "../backend.ts"
import { sharesOf } from "./shares.ts"

/** How the step runs. */
export interface StepForm {
  readonly mode: CompileMode
  readonly precision: MatMulPrecision
}

export interface TrainStepSettings {
  readonly adamW: AdamWSettings
  /** Entropy is one more pass over the vocabulary; it is measured when true or when the objective needs it. */
  readonly entropy: boolean
  /** Logits of a batch, all lanes together, from which on they are computed in parts: see `tokenScores`. */
  readonly headChunksFrom?: number
}

export interface TrainStep {
  readonly moments: { readonly first: readonly Variable[]; readonly second: readonly Variable[] }
  /** Optimizer steps taken; settable by a checkpoint that is loaded. */
  stepsTaken: number
  /** Adds the batch's gradients to the window's. */
  forwardBackward(batch: MicroBatch, spec: ObjectiveSpec, form: StepForm): ObjectiveMetrics
  /** Forgets the window's gradients. */
  discard(): void
  /** Applies and clears the window's gradients. */
  optimStep(step: OptimizerStep): { gradNorm: number; skipped: boolean }
  /**
   * Of each prediction of the batch, [rows * length], the log-prob of its token, or the entropy of the distribution that it is from; those of padding say
   * nothing. `name` keeps the compiled functions of different weights apart.
   */
  score(what: "logProbs" | "entropies", name: string, batch: MicroBatch, temperature: number, weights: () => Weights, form: StepForm): Float32Array
  dispose(): void
}

/** What a step computes with, and which part of it the optimizer moves. */
export interface TrainedModel {
  readonly config: ModelConfig
  /** Get gradients, moments and updates. */
  readonly trained: Parameters
  /** All weights, the trained ones among them; inside a trace, the values at this point. */
  readonly weights: () => Weights
}

export function createTrainStep(runtime: TensorRuntime, model: TrainedModel, settings: TrainStepSettings): TrainStep {
  const { config } = model
  const { specs, variables } = model.trained
  const zeros = (prefix: string): Variable[] =>
    specs.map((spec) => runtime.variable(`${prefix}.${spec.name}`, spec.shape, "f32", new Float32Array(spec.shape.reduce((size, dim) => size * dim, 1))))
  const gradients = zeros("grad")
  const first = zeros("m")
  const second = zeros("v")
  const names = specs.map((spec) => spec.name)
  const compiled = new Map<string, CompiledFunction>()
  const cached = (key: string, make: () => CompiledFunction): CompiledFunction => {
    let found = compiled.get(key)
    if (found === undefined) compiled.set(key, (found = make()))
    return found
  }
  const { lanes } = runtime.info
  const { raw } = runtime
  const head = { raw, chunksFrom: (settings.headChunksFrom ?? HEAD_CHUNKS_FROM) / lanes }
  let accumulating = false

  /** (a part of a batch) -> metrics, gradients. */
  function compileForwardBackward(spec: ObjectiveSpec, form: StepForm, columns: readonly BatchColumn[], samplesPerRow: number): CompiledFunction {
    const scalarNames = Object.keys(objectiveScalars(spec))
    const entropy = objectiveNeeds(spec).entropy ? "trained" : settings.entropy ? "measured" : "none"
    return runtime.compile(
      (ids_BT, positions_BT, targets_N, floats_CN, scalars_K, visibleUntil_BT, source_N, sequence_N) => {
        const [rows, length] = ids_BT!.shape as [number, number]
        const size = rows * length
        const column = (name: BatchColumn): Tensor1D => reshape(slice(floats_CN!, [columns.indexOf(name), 0], [1, size]), [size])
        const scalarAt = (i: number): Scalar => reshape(slice(scalars_K!, [i], [1]), [])
        const scalars = Object.fromEntries(scalarNames.map((name, i) => [name, scalarAt(i)]))
        const temperature = scalarAt(scalarNames.length)
        const current = model.weights()
        let metrics: Tensor | undefined
        const gradient = valueAndGrads((...values: Tensor[]) => {
          const weights = { ...current, ...Object.fromEntries(names.map((name, i) => [name, values[i]!])) }
          const hidden_ND = predictingStates(hiddenStates(config, weights, ids_BT!, positions_BT!, visibleUntil_BT), source_N)
          const { logProbs_N, entropies_N } = tokenScores(config, weights, hidden_ND, targets_N!, { ...head, temperature, entropy })
          const output = policyObjective(spec, {
            rows,
            length,
            logProbs_N,
            mask_N: column("lossMask"),
            behaviorLogProbs_N: column("behaviorLogProbs"),
            advantages_N: column("advantages"),
            weights_N: column("weights"),
            ...(columns.includes("referenceLogProbs") ? { referenceLogProbs_N: column("referenceLogProbs") } : {}),
            ...(columns.includes("proximalLogProbs") ? { proximalLogProbs_N: column("proximalLogProbs") } : {}),
            ...(columns.includes("ages") ? { ages_N: column("ages") } : {}),
            ...(entropies_N === undefined ? {} : { entropy_N: entropies_N }),
            ...(sequence_N === undefined ? {} : { sequences: { index_N: sequence_N as Tensor1D, perRow: samplesPerRow } }),
            scalars,
          })
          // The metrics leave the closure beside the loss: kept, or autodiff frees them with the forward pass.
          metrics = keep(output.metrics)
          return output.loss
        })
        const { grads } = gradient(names.map((name) => current[name]!))
        const result = metrics!.clone()
        metrics!.dispose()
        return [result, ...(raw === undefined ? grads : grads.map(raw.narrowest))]
      },
      { name: `forward and backward (${spec.kind})`, mode: form.mode, precision: form.precision },
    )
  }

  const shares = sharesOf(specs.map((spec) => spec.shape.reduce((size, dim) => size * dim, 1)), lanes)

  /** Adds gradients of parts up into the window's, those of the parameters of one share: (of one part, of the next, ...) -> nothing. */
  function compileCollect(share: readonly number[], parts: number, accumulate: boolean): CompiledFunction {
    return runtime.compile(
      (...given) => {
        share.forEach((index, i) => {
          const gradient = gradients[index]!
          const terms = Array.from({ length: parts }, (_, part) => given[part * share.length + i]!).map((term) => (raw === undefined ? term : raw.cast(term, DType.float32)))
          if (accumulate) terms.unshift(gradient.value())
          gradient.assign(terms.length === 1 ? terms[0]! : addN(terms))
        })
        return []
      },
      // XLA reads and writes everything once but on one core, which is what a lane has.
      { name: "sum of gradients", mode: lanes > 1 ? "xla" : "graph", autoCluster: false },
    )
  }

  const norm = runtime.compile(() => [reshape(globalNorm(gradients.map((variable) => variable.value()), raw), [1])], { name: "gradient norm", mode: "graph" })

  const compileUpdate = (share: readonly number[]): CompiledFunction => runtime.compile(
    (scalars_4) => {
      const at = (i: number): Tensor => reshape(slice(scalars_4!, [i], [1]), [])
      const [scale, learningRate, correction1, correction2] = [at(0), at(1), at(2), at(3)]
      share.forEach((i) => {
        const spec = specs[i]!
        const gradient = mul(gradients[i]!.value(), scale)
        const after = adamW(variables[i]!.value(), gradient, first[i]!.value(), second[i]!.value(), settings.adamW, { learningRate, correction1, correction2 }, spec.decay)
        variables[i]!.assign(after.parameter)
        first[i]!.assign(after.first)
        second[i]!.assign(after.second)
      })
      return []
    },
    { name: "optimizer step", mode: "xla" },
  )
  const updates = shares.map(compileUpdate)

  const step: TrainStep = {
    moments: { first, second },
    stepsTaken: 0,
    forwardBackward(batch, spec, form) {
      const columns = columnsOf(batch)
      // 0: one sample a row.
      const samplesPerRow = batch.packed?.samplesPerRow ?? 0
      const run = cached(`${objectiveKey(spec)} ${columns.join(",")} ${form.mode} ${form.precision} ${samplesPerRow}`, () => compileForwardBackward(spec, form, columns, samplesPerRow))
      const parts = splitRows(batch, lanes)
      const collects = shares.map((share, i) => ({ share, add: cached(`collect ${i} ${parts.length} ${accumulating}`, () => compileCollect(share, parts.length, accumulating)) }))
      const vectors: ArrayLike<number>[] = []
      tidy(() => {
        const scalars = tensor1d([...Object.values(objectiveScalars(spec)), spec.temperature])
        const results = inLanes(runtime, parts, (part) => {
          const inputs = upload(part, columns)
          return run(inputs.ids, inputs.positions, inputs.targets, inputs.floats, scalars, ...inputs.packed)
        })
        inLanes(runtime, collects, ({ share, add }) => add(...results.flatMap(([, ...partGradients]) => share.map((index) => partGradients[index]!))))
        for (const [metrics] of results) vectors.push(metrics!.dataSync())
      })
      accumulating = true
      return vectors.map(unpackMetrics).reduce(addMetrics)
    },
    discard() {
      accumulating = false
    },
    optimStep({ learningRate, maxGradNorm }) {
      accumulating = false
      const gradNorm = tidy(() => norm()[0]!.dataSync()[0]!)
      // A gradient that is not finite leaves everything as it was.
      if (!Number.isFinite(gradNorm)) return { gradNorm, skipped: true }
      const taken = step.stepsTaken + 1
      const scale = Math.min(1, maxGradNorm / Math.max(gradNorm, 1e-12))
      tidy(() => {
        const scalars = tensor1d([scale, learningRate, 1 - settings.adamW.beta1 ** taken, 1 - settings.adamW.beta2 ** taken])
        inLanes(runtime, updates, (update) => update(scalars))
      })
      step.stepsTaken = taken
      return { gradNorm, skipped: false }
    },
    score(what, name, batch, temperature, weights, form) {
      const run = cached(`${what} ${name} ${form.mode} ${form.precision}`, () =>
        runtime.compile(
          (ids_BT, positions_BT, targets_N, temperature_0, visibleUntil_BT, source_N) => {
            const values = weights()
            const hidden_ND = predictingStates(hiddenStates(config, values, ids_BT!, positions_BT!, visibleUntil_BT), source_N)
            const { logProbs_N, entropies_N } = tokenScores(config, values, hidden_ND, targets_N!, { ...head, temperature: temperature_0!, entropy: what === "logProbs" ? "none" : "measured" })
            return [entropies_N ?? logProbs_N]
          },
          { name: what, mode: form.mode, precision: form.precision },
        ),
      )
      const out = new Float32Array(batch.rows * batch.length)
      tidy(() => {
        const results = inLanes(runtime, splitRows(batch, lanes), (part) => {
          const inputs = upload(part, [])
          return run(inputs.ids, inputs.positions, inputs.targets, scalar(temperature), ...inputs.packed.slice(0, 2))[0]!
        })
        let start = 0
        for (const values of results) {
          out.set(values.dataSync() as Float32Array, start)
          start += values.size
        }
      })
      return out
    },
    dispose() {
      for (const run of compiled.values()) run.dispose()
      norm.dispose()
      for (const update of updates) update.dispose()
      for (const variable of [...gradients, ...first, ...second]) variable.dispose()
    },
  }
  return step
}

/** Hidden states [N, D] in the order of the predictions: of the token that makes each, where that is not the token in the same place. */
function predictingStates(hidden_ND: Tensor, source_N: Tensor | undefined): Tensor {
  return source_N === undefined ? hidden_ND : gather(hidden_ND, source_N as Tensor1D)
}

interface BatchTensors {
  readonly ids: Tensor
  readonly positions: Tensor
  readonly targets: Tensor
  readonly floats: Tensor
  /** Of rows that hold several samples: until where each token is seen [rows, length]; of each prediction its token's place among all of them [N], and its sample [N]. */
  readonly packed: readonly Tensor[]
}

/** Per-prediction arrays of a batch that the step reads as numbers. */
type BatchColumn = "lossMask" | "behaviorLogProbs" | "advantages" | "weights" | "referenceLogProbs" | "proximalLogProbs" | "ages"

function columnsOf(batch: MicroBatch): readonly BatchColumn[] {
  const optional = (["referenceLogProbs", "proximalLogProbs", "ages"] as const).filter((name) => batch[name] !== undefined)
  return ["lossMask", "behaviorLogProbs", "advantages", "weights", ...optional]
}

/** The tensors of a batch, of the scope around. */
function upload(batch: MicroBatch, columns: readonly BatchColumn[]): BatchTensors {
  const { rows, length, packed } = batch
  const size = rows * length
  const floats = new Float32Array(columns.length * size)
  columns.forEach((name, column) => floats.set(batch[name]!, column * size))
  return {
    ids: tensor(batch.tokenIds, [rows, length], "int32"),
    positions: tensor(batch.positions, [rows, length], "int32"),
    targets: tensor1d(batch.targets, "int32"),
    floats: tensor(floats, [columns.length, size]),
    packed:
      packed === undefined
        ? []
        : [
            tensor(packed.visibleUntil, [rows, length], "int32"),
            tensor1d(packed.source.map((index, at) => at - (at % length) + index), "int32"),
            tensor1d(packed.sequence, "int32"),
          ],
  }
}
