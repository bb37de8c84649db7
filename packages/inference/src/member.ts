// One server of a pool: its load, whether it is set aside and why, and when it may be looked at again.
import type { InferenceServer } from "./protocol.ts"

export interface MemberState {
  readonly name: string
  readonly server: InferenceServer
  /** Completions in flight. */
  load: number
  /** Held by a control call: from the call of pause to the end of resume. */
  paused: boolean
  /** Version it loaded last through the pool; undefined before the first. */
  version: number | undefined
  /** Why it gets no requests; undefined when it does. */
  aside: string | undefined
  /** Earliest time of the next look at it, ms. */
  probeAtMs: number
  probeDelayMs: number
  /** A return to service under way; a pause waits for it. It may reject, which the pool itself hears. */
  catchingUp: Promise<void> | undefined
}

/** What a pool shows of a server. */
export interface MemberStatus {
  readonly name: string
  readonly load: number
  readonly paused: boolean
  readonly version: number | undefined
  readonly aside: string | undefined
}

/** Result of one control call on one server of a pool. */
export interface ServerOutcome {
  readonly name: string
  readonly ok: boolean
  readonly error?: string
}

export function newMember(server: InferenceServer, index: number, probeAfterMs: number): MemberState {
  return { name: server.name ?? `server ${index + 1}`, server, load: 0, paused: false, version: undefined, aside: undefined, probeAtMs: 0, probeDelayMs: probeAfterMs, catchingUp: undefined }
}

export function statusOfMember(member: MemberState): MemberStatus {
  const { name, load, paused, version, aside } = member
  return { name, load, paused, version, aside }
}

/**
 * The member that should take a request: in use, not yet tried, unpaused before paused, the one that knows the prompt unless it has
 * `slack` completions more than the least loaded, then the least loaded.
 */
export function chooseMember(members: readonly MemberState[], tried: ReadonlySet<MemberState>, known: MemberState | undefined, slack: number): MemberState | undefined {
  const usable = members.filter((member) => member.aside === undefined && !tried.has(member))
  const awake = usable.filter((member) => !member.paused)
  const candidates = awake.length > 0 ? awake : usable
  const least = candidates.reduce<MemberState | undefined>((best, member) => (best === undefined || member.load < best.load ? member : best), undefined)
  if (least === undefined) return undefined
  if (known !== undefined && candidates.includes(known) && known.load <= least.load + slack) return known
  return least
}
