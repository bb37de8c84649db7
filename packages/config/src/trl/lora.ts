// Options of adapters, which TRL's command line takes beside those of its trainers.
import type { JsonValue } from "../json.ts"
import { refuse, type TrlFacts, type TrlRow, type TrlSetting } from "./row.ts"

const layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
/** What PEFT adapts in models of these families where nothing is named. */
const peftDefault = ["q_proj", "v_proj"]

const usesPeft = ({ values }: TrlFacts): boolean => values["use_peft"] === true

function targetsOf(value: JsonValue | undefined): ReturnType<TrlRow["answer"]> {
  const names = value === undefined || value === null ? peftDefault : value === "all-linear" ? layers : [value].flat().flatMap((name) => String(name).split(/[\s,]+/))
  const others = names.filter((name) => !layers.includes(name))
  if (others.length > 0) return refuse(`adapters are of ${layers.join(", ")}, not of ${others.join(", ")}`)
  return [{ path: "model.lora.targets", value: layers.filter((name) => names.includes(name)) }]
}

/** An option that counts only with use_peft. */
const withPeft = (option: string, becomes: string, example: JsonValue, answer: (value: JsonValue) => readonly TrlSetting[] | ReturnType<typeof refuse>): TrlRow => ({
  option,
  becomes: `${becomes}, where use_peft is true`,
  example,
  beside: { use_peft: true },
  answer: (value, facts) => (usesPeft(facts) ? answer(value) : []),
})

const without = (option: string, reason: string, example: JsonValue): TrlRow => ({
  option,
  becomes: `not taken: ${reason}`,
  example,
  answer: (value) => (value === null || value === false ? [] : refuse(reason)),
})

export const loraRows: readonly TrlRow[] = [
  {
    option: "use_peft",
    becomes: "`model.lora`; without lora_target_modules its targets are PEFT's q_proj and v_proj",
    example: true,
    answer: (value, { values }) => {
      if (value !== true) return []
      const targets = targetsOf(values["lora_target_modules"])
      return [{ path: "model.lora.rank", value: values["lora_r"] ?? 16 }, { path: "model.lora.alpha", value: values["lora_alpha"] ?? 32 }, ...("reason" in targets ? [] : targets)]
    },
  },
  withPeft("lora_r", "`model.lora.rank`", 8, (value) => [{ path: "model.lora.rank", value }]),
  withPeft("lora_alpha", "`model.lora.alpha`", 16, (value) => [{ path: "model.lora.alpha", value }]),
  withPeft("lora_target_modules", "`model.lora.targets`; all-linear is all of them", ["q_proj", "down_proj"], targetsOf),
  withPeft("use_rslora", "`model.lora.rankStabilized`", true, (value) => [{ path: "model.lora.rankStabilized", value }]),
  withPeft("lora_dropout", "0, since a policy whose log-probs vary by chance has no exact ratio; others are not taken", 0.05, (value) =>
    value === 0 ? [] : refuse("adapters are trained without dropout: it would make the log-probs of the same policy differ by chance"),
  ),
  without("lora_modules_to_save", "only adapters are trained beside frozen weights", ["lm_head"]),
  without("lora_target_parameters", "adapters are of linear layers", ["mlp.experts"]),
  without("use_dora", "adapters are plain LoRA", true),
  without("load_in_8bit", "weights are not quantized", true),
  without("load_in_4bit", "weights are not quantized", true),
]
