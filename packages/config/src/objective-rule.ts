// Rules within the `objective` section: combinations of recipes that contradict each other, or of which one part would do nothing.
import type { Rule } from "./rule-type.ts"

/** Kinds whose surrogate is PPO's clipped one. */
const CLIPPED = ["dapo", "grpo", "bnpo", "dr_grpo", "gspo", "gspo_token", "luspo"]
/** Kinds that are defined by their ratio. */
const FIXED_LEVEL: Readonly<Record<string, string>> = { gspo: "sequence", gspo_token: "sequenceToken", vespo: "token" }

export const objectiveRules: readonly Rule[] = [
  {
    reads: ["objective.epsilonHigh", "objective.epsilonLow", "objective.kind"],
    check: ({ objective: { epsilonHigh, epsilonLow, kind } }) =>
      epsilonHigh >= epsilonLow || !CLIPPED.includes(kind)
        ? undefined
        : { expected: `at least objective.epsilonLow = ${epsilonLow}`, fix: `Raise objective.epsilonHigh to ${epsilonLow} or more (DAPO uses 0.28), or lower objective.epsilonLow.` },
  },
  {
    reads: ["objective.delta", "objective.epsilonHigh", "objective.kind"],
    check: ({ objective: { delta, epsilonHigh, kind } }) => {
      if (delta === undefined) return undefined
      if (!CLIPPED.includes(kind)) return { expected: `nothing with objective.kind = "${kind}"`, fix: `${kind} has no clip to make two-sided: leave objective.delta out.` }
      return delta > 1 + epsilonHigh ? undefined : { expected: `above 1 + objective.epsilonHigh = ${1 + epsilonHigh}`, fix: "Under that bound it would act on tokens that the clip lets pass: raise objective.delta (4 is usual), or leave it out." }
    },
  },
  {
    reads: ["objective.level", "objective.kind"],
    check: ({ objective: { level, kind } }) => {
      const own = FIXED_LEVEL[kind]
      return own === undefined || level === "auto" || level === own
        ? undefined
        : { expected: `"auto" with objective.kind = "${kind}"`, fix: `${kind} is defined by its ${own} ratio: leave objective.level out, or take ${level === "token" ? '"grpo"' : '"grpo" or "dapo"'}.` }
    },
  },
  {
    reads: ["objective.oldPolicy", "objective.correction"],
    check: ({ objective: { oldPolicy, correction } }) =>
      oldPolicy !== "behavior" || correction === "none"
        ? undefined
        : { expected: `"auto" or "proximal" with objective.correction = "${correction}"`, fix: "With the sampler's log-probs in the ratio the correction would count the mismatch twice." },
  },
  {
    reads: ["objective.advantageScale", "objective.advantage"],
    check: ({ objective: { advantageScale, advantage } }) =>
      advantage === "group" || advantageScale === "group"
        ? undefined
        : { expected: `left out with objective.advantage = "${advantage}"`, fix: `${advantage} has a scale of its own; objective.advantageScale belongs to "group".` },
  },
  {
    reads: ["objective.klIn", "objective.klCoefficient"],
    check: ({ objective: { klIn, klCoefficient } }) =>
      klIn === "loss" || klCoefficient > 0 ? undefined : { expected: '"loss" without a KL', fix: "Set objective.klCoefficient above 0 to take a KL off the reward." },
  },
  {
    reads: ["objective.klIn", "objective.advantage"],
    check: ({ objective: { klIn, advantage } }) =>
      klIn === "loss" || advantage !== "gdpo"
        ? undefined
        : { expected: '"loss" with objective.advantage = "gdpo"', fix: 'gdpo normalises each reward by itself, so a KL taken off their sum has no place: set objective.klIn to "loss", or objective.advantage to "group".' },
  },
  {
    reads: ["objective.reference", "objective.klCoefficient"],
    check: ({ objective: { reference, klCoefficient } }) =>
      reference === "start" || klCoefficient > 0 ? undefined : { expected: '"start" without a KL', fix: "A reference is only used by the KL: set objective.klCoefficient above 0, or leave objective.reference out." },
  },
  {
    reads: ["objective.reference", "model.lora"],
    check: ({ objective: { reference }, model: { lora } }) =>
      reference === "start" || lora === undefined
        ? undefined
        : { expected: '"start" with model.lora', fix: "The mean of two adapters' matrices is not the mean of their models: keep the start, which costs no second copy of the weights, or leave model.lora out." },
  },
  {
    reads: ["objective.entropyCoefficient", "objective.entropyAdaptive", "objective.entropyMin", "objective.entropyMax"],
    check: ({ objective: { entropyCoefficient, entropyAdaptive, entropyMin, entropyMax } }) => {
      if (!entropyAdaptive) return undefined
      const fits = entropyMin <= entropyCoefficient && entropyCoefficient <= entropyMax
      return fits ? undefined : { expected: `within objective.entropyMin = ${entropyMin} and objective.entropyMax = ${entropyMax}`, fix: "It is where the adaptive weight starts: move it, or widen the bounds." }
    },
  },
  {
    reads: ["objective.correctionMin", "objective.correctionMax", "objective.correction"],
    check: ({ objective: { correction, correctionMin, correctionMax } }) => {
      if (correctionMin === undefined) return undefined
      if (correction === "none") return { expected: 'nothing with objective.correction = "none"', fix: "Name a correction, or leave objective.correctionMin out." }
      return correctionMin < correctionMax ? undefined : { expected: `below objective.correctionMax = ${correctionMax}`, fix: "Swap or widen the bounds." }
    },
  },
  {
    reads: ["objective.correction", "objective.kind"],
    check: ({ objective: { correction, kind } }) =>
      kind !== "vespo" || correction === "none" || correction.startsWith("token_")
        ? undefined
        : { expected: 'a token correction, or none, with objective.kind = "vespo"', fix: "vespo multiplies the weights of a completion's tokens itself: take token_truncate or token_mask." },
  },
]
