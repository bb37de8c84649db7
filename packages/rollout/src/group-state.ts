// The life of a group as a pure reducer with named actions: who is generating, who failed, when it may be scored, how it ended.
import { CohortError } from "@cohort/errors"
import type { DropReason } from "./generation.ts"

export type GroupPhase = "admitted" | "generating" | "scoring" | "complete" | "queued" | "taken" | "trained" | "dropped" | "givenBack"

export interface MemberState {
  readonly status: "waiting" | "generating" | "generated" | "scored" | "failed"
  /** Attempts begun. */
  readonly attempts: number
  readonly reason?: DropReason
  readonly error?: string
}

export interface GroupState {
  readonly id: string
  readonly occurrence: number
  readonly phase: GroupPhase
  readonly members: readonly MemberState[]
  /** Why it was dropped. */
  readonly reason?: DropReason
  readonly error?: string
}

/** Rules of partial failure. */
export interface GroupRules {
  /** Attempts of a member before it leaves the group; 1 is no retry. */
  readonly maxAttempts: number
  /** A group with fewer members left is dropped: below two there is no baseline. */
  readonly minMembers: number
}

export type GroupAction =
  | { readonly type: "generate"; readonly member: number }
  | { readonly type: "generated"; readonly member: number }
  | { readonly type: "failed"; readonly member: number; readonly reason: DropReason; readonly error: string; readonly retryable: boolean }
  | { readonly type: "scored"; readonly member: number }
  | { readonly type: "queue" }
  | { readonly type: "take" }
  | { readonly type: "train" }
  | { readonly type: "drop"; readonly reason: DropReason; readonly error?: string }
  | { readonly type: "giveBack" }

type GroupStep = Exclude<GroupAction, { readonly member: number }>["type"]

/** From which phases a step of the whole group is allowed, and where it leads. */
const steps: Readonly<Record<GroupStep, { readonly from: readonly GroupPhase[]; readonly to: GroupPhase }>> = {
  queue: { from: ["complete"], to: "queued" },
  take: { from: ["queued"], to: "taken" },
  train: { from: ["taken"], to: "trained" },
  drop: { from: ["admitted", "generating", "scoring", "complete", "queued", "taken"], to: "dropped" },
  giveBack: { from: ["admitted", "generating", "scoring", "complete", "queued", "taken"], to: "givenBack" },
}

const memberFrom = { generate: "waiting", generated: "generating", scored: "generated" } as const
const memberTo = { generate: "generating", generated: "generated", scored: "scored" } as const

export function admitGroup(id: string, occurrence: number, size: number): GroupState {
  return { id, occurrence, phase: "admitted", members: Array.from({ length: size }, () => ({ status: "waiting", attempts: 0 })) }
}

/**
 * The next state. The group moves on by itself: to `scoring` once every member has generated or failed, to `complete` once
 * every survivor is scored, to `dropped` with the most frequent reason once fewer than `minMembers` survive.
 *
 * @throws CohortError `internal` for an action that the state does not allow.
 * @example
 * reduceGroup(admitGroup("g0", 0, 2), { type: "generate", member: 0 }, rules).phase // "generating"
 */
export function reduceGroup(state: GroupState, action: GroupAction, rules: GroupRules): GroupState {
  if (!("member" in action)) {
    const step = steps[action.type]
    if (!step.from.includes(state.phase)) throw illegal(state, action.type)
    if (action.type !== "drop") return { ...state, phase: step.to }
    return { ...state, phase: "dropped", reason: action.reason, ...(action.error === undefined ? {} : { error: action.error }) }
  }
  const member = state.members[action.member]
  const open = state.phase === "admitted" || state.phase === "generating" || state.phase === "scoring"
  if (member === undefined || !open) throw illegal(state, action.type, action.member)
  const members = state.members.with(action.member, nextMember(state, member, action, rules))
  return settle({ ...state, phase: state.phase === "admitted" ? "generating" : state.phase, members }, rules)
}

/** Members that are to be generated (again). */
export function waitingMembers(state: GroupState): readonly number[] {
  return state.members.flatMap((member, index) => (member.status === "waiting" ? [index] : []))
}

/** Members that still hold a place of the server. */
export function activeMembers(state: GroupState): number {
  if (state.phase !== "admitted" && state.phase !== "generating") return 0
  return state.members.filter(({ status }) => status === "waiting" || status === "generating").length
}

function nextMember(
  state: GroupState,
  member: MemberState,
  action: Extract<GroupAction, { readonly member: number }>,
  rules: GroupRules,
): MemberState {
  if (action.type === "failed") {
    if (member.status !== "generating" && member.status !== "generated") throw illegal(state, action.type, action.member)
    const again = action.retryable && member.status === "generating" && member.attempts < rules.maxAttempts
    const { attempts } = member
    return again ? { status: "waiting", attempts } : { status: "failed", attempts, reason: action.reason, error: action.error }
  }
  if (member.status !== memberFrom[action.type]) throw illegal(state, action.type, action.member)
  return { status: memberTo[action.type], attempts: member.attempts + (action.type === "generate" ? 1 : 0) }
}

function settle(state: GroupState, rules: GroupRules): GroupState {
  const left = state.members.filter(({ status }) => status !== "failed")
  // The rest is not waited for: a group that can no longer reach its size is over.
  if (left.length < rules.minMembers) return { ...state, phase: "dropped", ...commonest(state.members) }
  if (state.phase === "generating" && left.every(({ status }) => status === "generated")) return { ...state, phase: "scoring" }
  if (state.phase === "scoring" && left.every(({ status }) => status === "scored")) return { ...state, phase: "complete" }
  return state
}

/** The most frequent reason among the failed; the first of equals. */
function commonest(members: readonly MemberState[]): { readonly reason: DropReason; readonly error: string } {
  const reasons = members.flatMap(({ reason }) => (reason === undefined ? [] : [reason]))
  const count = (wanted: DropReason): number => reasons.filter((reason) => reason === wanted).length
  const reason = reasons.reduce((best, next) => (count(next) > count(best) ? next : best))
  return { reason, error: members.find((member) => member.reason === reason)?.error ?? "" }
}

function illegal(state: GroupState, action: string, member?: number): CohortError {
  const of = member === undefined ? "" : ` of member ${member} (${state.members[member]?.status ?? "absent"})`
  return new CohortError("internal", `group ${state.id} is ${state.phase}: "${action}"${of} is not allowed`)
}
