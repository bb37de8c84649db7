// All rows, and TRL's own defaults.
import type { JsonTable } from "../json.ts"
import { absent } from "./absent.ts"
import { generationRows } from "./generation.ts"
import { loraRows } from "./lora.ts"
import { objectiveRows } from "./objective.ts"
import { optimizerRows } from "./optimizer.ts"
import options from "./options.json" with { type: "json" }
import type { TrlRow, TrlTrainer } from "./row.ts"
import { runRows } from "./run.ts"

/** Release of TRL that `trlDefaults` are of. */
export const TRL_VERSION: string = options.version

export const trlRows: readonly TrlRow[] = [...runRows, ...loraRows, ...optimizerRows, ...generationRows, ...objectiveRows]

/** Option to the reason why there is no counterpart. */
export const absentReasons: ReadonlyMap<string, string> = new Map(absent.flatMap(({ reason, options }) => options.map((option) => [option, reason] as const)))

/** Options of each trainer with TRL's defaults. */
export const trlDefaults: Readonly<Record<TrlTrainer, JsonTable>> = { async: options.async, grpo: options.grpo }

/** Options that other releases have. */
export const extraDefaults: JsonTable = options.extra

/** The trainers that have an option; none for those of TRL's command line. */
export const trainersOf = (option: string): TrlTrainer[] => (["async", "grpo"] as const).filter((trainer) => Object.hasOwn(trlDefaults[trainer], option))
