// When a group may start and what becomes of it when the trainer takes it. Pure: a snapshot in, a decision with its sentence out.
import { CohortError } from "@cohort/errors"
import type { PipelineState, SampleGroup, StalenessDecision, StalenessPolicy } from "./protocol.ts"


/** Steps by which the servers' weights are behind `version`: weights are pushed at multiples of `stepsPerSync`. */
function syncLag(state: PipelineState): number {
  return state.version % state.stepsPerSync
}

/** Last step at which a group that starts now is within the bound. */
export function deadlineOf(state: PipelineState): number {
  return state.version - syncLag(state) + state.maxStaleness
}

/**
 * Nothing is dropped for its age: a group starts only if the trainer can still reach it in time.
 *
 * With n groups ahead of it a group is trained at step version + floor(n / groupsPerStep), so
 * n < (maxStaleness - lag + 1) x groupsPerStep must hold (the rule of AReaL and SkyRL; lag is 0 when weights are pushed each step).
 * maxStaleness 0 admits exactly one step's groups per version: on-policy. A group older than the bound all the same, because the
 * servers' weights are older than announced, is dropped.
 */
export const pacedPolicy: StalenessPolicy = {
  name: "paced",
  waitsForOldest: true,
  capacity(state) {
    const ahead = state.groupsInFlight + state.groupsQueued + state.groupsTaken
    const allowed = (state.maxStaleness - syncLag(state) + 1) * state.groupsPerStep
    const groups = Math.max(0, allowed - ahead)
    const because = `version ${state.version} allows ${allowed} groups (max staleness ${state.maxStaleness}, ${state.groupsPerStep} per step); ${ahead} are ahead`
    return { groups, because }
  },
  decide: dropAboveBound,
}

/** Starts groups as fast as servers and queue take them, and drops at the trainer what is older than the bound. */
export const dropPolicy: StalenessPolicy = {
  name: "drop",
  capacity: unpaced,
  decide: dropAboveBound,
}

/**
 * Trains groups older than the bound with weight `factor ** (age - maxStaleness)`; below `minWeight` they are dropped.
 *
 * @throws CohortError `config_invalid` unless 0 < factor < 1 and 0 < minWeight <= 1.
 * @example
 * downWeightPolicy({ factor: 0.5 }) // age 2 with bound 1 trains at weight 0.5
 */
export function downWeightPolicy(options: { readonly factor?: number; readonly minWeight?: number } = {}): StalenessPolicy {
  const { factor = 0.5, minWeight = 0.05 } = options
  if (!(factor > 0 && factor < 1)) throw new CohortError("config_invalid", `factor is ${factor}; it must lie between 0 and 1`)
  if (!(minWeight > 0 && minWeight <= 1)) throw new CohortError("config_invalid", `minWeight is ${minWeight}; it must lie above 0 and at most at 1`)
  return {
    name: "down-weight",
    capacity: unpaced,
    decide(group, state) {
      const invalid = refuseVersion(group, state)
      if (invalid !== null) return invalid
      const age = state.version - group.oldestVersion
      if (age <= state.maxStaleness) return { action: "train", weight: 1, because: within(age, state) }
      const weight = factor ** (age - state.maxStaleness)
      if (weight < minWeight) return { action: "drop", weight: 0, because: `age ${age} would train at weight ${weight}, below ${minWeight}` }
      return { action: "train", weight, because: `age ${age} is above ${state.maxStaleness}: weight ${weight}` }
    },
  }
}

/**
 * Starts groups as fast as servers and queue take them. Of a group that began too long ago, the tokens that are within the bound are trained and the
 * older ones are not; it is dropped when none is left. What a long rollout wrote last is not lost with what it wrote first.
 */
export const maskPolicy: StalenessPolicy = {
  name: "mask",
  capacity: unpaced,
  decide(group, state) {
    const invalid = refuseVersion(group, state)
    if (invalid !== null) return invalid
    const age = state.version - group.oldestVersion
    if (age <= state.maxStaleness) return { action: "train", weight: 1, because: within(age, state) }
    const maskBelowVersion = state.version - state.maxStaleness
    const left = group.samples.reduce((sum, { lossMask, versions }) => sum + lossMask.reduce((trained, mask, at) => trained + (mask === 1 && versions[at]! >= maskBelowVersion ? 1 : 0), 0), 0)
    if (left === 0) return { action: "drop", weight: 0, because: `age ${age} is above the bound of ${state.maxStaleness}, and so is every token` }
    return { action: "train", weight: 1, maskBelowVersion, because: `age ${age} is above the bound of ${state.maxStaleness}: ${left} of ${group.trainedTokens} tokens are within it` }
  },
}

/**
 * Whether the trainer must wait before it takes a group whose deadline is `candidate`: true when that would leave too few places
 * in the steps up to some earlier deadline for the groups still in flight (earliest deadline first, by counting).
 */
export function mustWait(candidate: number, inFlightDeadlines: readonly number[], state: PipelineState): boolean {
  const earlier = inFlightDeadlines.filter((deadline) => deadline < candidate)
  return earlier.some((deadline) => {
    const places = Math.max(1, deadline - state.version + 1) * state.groupsPerStep - state.groupsTaken
    return earlier.filter((other) => other <= deadline).length > places - 1
  })
}

/**
 * Refuses settings under which nothing could ever be trained.
 *
 * @throws CohortError `config_invalid` naming the setting, its value and the way out.
 */
export function checkStaleness(settings: Pick<PipelineState, "maxStaleness" | "groupsPerStep" | "stepsPerSync">): void {
  const { maxStaleness, groupsPerStep, stepsPerSync } = settings
  for (const [name, value, least] of [["maxStaleness", maxStaleness, 0], ["groupsPerStep", groupsPerStep, 1], ["stepsPerSync", stepsPerSync, 1]] as const)
    if (!Number.isInteger(value) || value < least)
      throw new CohortError("config_invalid", `${name} is ${value}; it must be an integer of at least ${least}`, { details: { field: name, value } })
  if (maxStaleness < stepsPerSync - 1)
    throw new CohortError("config_invalid", `maxStaleness is ${maxStaleness}, but weights pushed every ${stepsPerSync} steps are up to ${stepsPerSync - 1} steps old when they generate`, {
      hint: `Set maxStaleness to at least ${stepsPerSync - 1}, or push weights every ${maxStaleness + 1} steps.`,
      details: { field: "maxStaleness", value: maxStaleness },
    })
}

function unpaced(): ReturnType<StalenessPolicy["capacity"]> {
  return { groups: Number.MAX_SAFE_INTEGER, because: "admission is bounded by the servers and the queue only" }
}

function dropAboveBound(group: SampleGroup, state: PipelineState): StalenessDecision {
  const invalid = refuseVersion(group, state)
  if (invalid !== null) return invalid
  const age = state.version - group.oldestVersion
  if (age > state.maxStaleness) return { action: "drop", weight: 0, because: `age ${age} is above the bound of ${state.maxStaleness}` }
  return { action: "train", weight: 1, because: within(age, state) }
}

function refuseVersion(group: SampleGroup, state: PipelineState): StalenessDecision | null {
  if (!Number.isInteger(group.oldestVersion) || group.oldestVersion < 0)
    return { action: "drop", weight: 0, because: `version ${group.oldestVersion} is not a policy version` }
  if (group.oldestVersion > state.version)
    return { action: "drop", weight: 0, because: `version ${group.oldestVersion} is newer than ${state.version}, which is being trained` }
  return null
}

function within(age: number, state: PipelineState): string {
  return `age ${age} is within the bound of ${state.maxStaleness}`
}
