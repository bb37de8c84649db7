// Which form of the training step is fastest here: measured once per machine, model and shape, and remembered.
import type { BatchShape } from "@cohort/batching"
import type { LoraSettings, ModelConfig } from "@cohort/model"
import { recallMeasured, rememberMeasured } from "@cohort/tensor"
import type { StepForm } from "./train-step.ts"

export interface FormChoice {
  readonly form: StepForm
  readonly because: string
}

export interface ChooseFormOptions {
  /** What the config asks for. */
  readonly compile: "auto" | "xla" | "graph" | "eager"
  readonly precision: "f32" | "mixed" | "auto"
  /** Names machine, library, model and shape. */
  readonly key: string
  /** Remembered choices, JSON; absent: measured anew. */
  readonly memory?: string
  /** Runs the step once in a form; the first call compiles. */
  readonly run: (form: StepForm) => void
  readonly now: () => number
}

const repetitions = 3
/** bf16 products lose precision against the engine's log-probs, so they must be worth it. */
const halfPrecisionGain = 1.1

/** Picks the form. Candidates that the config leaves open are each compiled and run a few times. */
export function chooseForm(options: ChooseFormOptions): FormChoice {
  const modes = options.compile === "auto" ? (["xla", "graph"] as const) : ([options.compile] as const)
  const precisions = options.precision === "auto" ? (["f32", "bf16"] as const) : ([options.precision === "mixed" ? "bf16" : "f32"] as const)
  // XLA's own CPU product gains nothing from bf16, so the whole-XLA form is tried in float32 unless the config insists.
  const candidates: StepForm[] = modes.flatMap((mode) => precisions.filter((precision) => mode !== "xla" || precision === "f32" || precisions.length === 1).map((precision) => ({ mode, precision })))
  if (candidates.length === 1) return { form: candidates[0]!, because: "the config asks for it" }
  // What is asked for belongs to the key: another run's answer from fewer candidates is none here.
  const key = `${options.key} ${options.compile} ${options.precision}`
  const answer = options.memory === undefined ? undefined : recallMeasured(options.memory, key, candidates.map(nameOf))
  const known = candidates.find((form) => nameOf(form) === answer)
  if (known !== undefined) return { form: known, because: "it was the fastest when this machine was measured" }
  const timed = candidates.map((form) => ({ form, ms: bestOf(options, form) }))
  const cost = ({ form, ms }: (typeof timed)[number]): number => (form.precision === "bf16" ? ms * halfPrecisionGain : ms)
  const fastest = timed.reduce((best, next) => (cost(next) < cost(best) ? next : best))
  if (options.memory !== undefined) rememberMeasured(options.memory, key, nameOf(fastest.form))
  return { form: fastest.form, because: timed.map(({ form, ms }) => `${nameOf(form)} ${ms.toFixed(1)} ms`).join(", ") }
}

/** Names what the speed of a form depends on; tokens to a power of two: steps of about that size prefer the same form, and a run's first batch differs a little each time. */
export function formKey({ machine, config, lanes, lora }: MeasuredStep, { rows, length }: BatchShape): string {
  const parts = [machine, config.architecture, `${config.layers}x${config.hiddenSize}`, 2 ** Math.round(Math.log2(rows * length)), "tokens"]
  if (lanes > 1) parts.push(lanes, "lanes")
  if (lora !== undefined) parts.push("lora", lora.rank, lora.targets.length)
  return parts.join(" ")
}

export interface MeasuredStep {
  /** Machine and library. */
  readonly machine: string
  readonly config: Pick<ModelConfig, "architecture" | "layers" | "hiddenSize">
  readonly lanes: number
  readonly lora: Pick<LoraSettings, "rank" | "targets"> | undefined
}

function nameOf(form: StepForm): string {
  return `${form.mode} ${form.precision}`
}

function bestOf(options: ChooseFormOptions, form: StepForm): number {
  options.run(form)
  let best = Number.POSITIVE_INFINITY
  for (let i = 0; i < repetitions; i++) {
    const start = options.now()
    options.run(form)
    best = Math.min(best, options.now() - start)
  }
  return best
}
