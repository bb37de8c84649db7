// Several inference servers behind one face: routing, failover, and weights that reach all of them or are caught up later.
import { CohortError, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import { prefixAffinity } from "./affinity.ts"
import { systemClock, type Clock } from "./clock.ts"
import { chooseMember, newMember, statusOfMember, type MemberState, type MemberStatus, type ServerOutcome } from "./member.ts"
import type { GenerateRequest, Generation, InferenceServer, ServerHealth, ServerWeights } from "./protocol.ts"

export interface PoolOptions {
  /** Milliseconds; only differences are used. */
  readonly now: () => number
  readonly sleep?: Clock["sleep"]
  /** How long a request waits while no server can take it, ms. 300,000 when absent. */
  readonly patienceMs?: number
  /** Wait before the first look at a server that was set aside, ms; doubles up to a minute. 1,000 when absent. */
  readonly probeAfterMs?: number
  /** Completions by which a server that knows the prompt may be busier than the least busy one. 32 when absent. */
  readonly affinitySlack?: number
  /** Told when a server is set aside or comes back. */
  readonly onChange?: (message: string) => void
}

export interface ServerPool extends InferenceServer {
  readonly name: string
  /** The same servers, tracked: what is done to one of these the pool knows. Give them to a weight transfer. */
  readonly members: readonly InferenceServer[]
  readonly status: readonly MemberStatus[]
  /** Per-server results of the last pause, resume or loadWeights on the whole pool. */
  readonly outcomes: readonly ServerOutcome[]
  /** Looks now at every server that is set aside, and brings back those that are well. */
  probe(): Promise<void>
}

const maxProbeDelayMs = 60_000

/**
 * Makes one server of many.
 *
 * A generation goes to the least loaded server, or to the one that has seen its prompt. When that server cannot be reached, times out or
 * fails (5xx), it is set aside with the reason and the request goes to another, or waits for one to come back; a refusal (`inference_rejected`) is thrown at once. A
 * server set aside is looked at again after a while, and first gets the weights it missed. Pause, resume and
 * loadWeights run on all servers at once; they throw only when no server did it, and `outcomes` tells of each.
 * Give pooled servers few tries (`retry: { attempts: 2 }`), so that another takes over soon.
 *
 * @example
 * const pool = serverPool([vllmServer(a), vllmServer(b)], { now: () => performance.now() })
 */
export function serverPool(servers: readonly InferenceServer[], options: PoolOptions): ServerPool {
  if (servers.length === 0) throw new CohortError("config_invalid", "a server pool of 0 servers", { hint: "Give at least one inference server." })
  const probeAfterMs = options.probeAfterMs ?? 1_000
  const patienceMs = options.patienceMs ?? 300_000
  const sleep = options.sleep ?? systemClock.sleep
  const slack = options.affinitySlack ?? 32
  const states = servers.map((server, index) => newMember(server, index, probeAfterMs))
  const affinity = prefixAffinity({ blockTokens: 32, maxEntries: 16_384 })
  let latest: ServerWeights | undefined
  let outcomes: readonly ServerOutcome[] = []
  let probing: Promise<void> | undefined

  const setAside = (member: MemberState, reason: string, probeAtMs?: number) => {
    if (member.aside === undefined) {
      member.probeDelayMs = probeAfterMs
      options.onChange?.(`${member.name} set aside: ${reason}`)
    } else member.probeDelayMs = Math.min(member.probeDelayMs * 2, maxProbeDelayMs)
    member.aside = reason
    member.probeAtMs = probeAtMs ?? options.now() + member.probeDelayMs
  }
  const bringBack = (member: MemberState) => {
    if (member.aside === undefined) return
    options.onChange?.(`${member.name} is back (was aside: ${member.aside})`)
    member.aside = undefined
  }

  const tracked = (member: MemberState): InferenceServer => ({
    name: member.name,
    generate: (request) => member.server.generate(request),
    health: () => member.server.health(),
    close: () => member.server.close(),
    async pause(mode) {
      member.paused = true
      // How it ended is the probe's to hear.
      await Promise.allSettled([member.catchingUp])
      await member.server.pause(mode)
    },
    async resume() {
      await orAside(member, "resume", () => member.server.resume()).finally(() => {
        member.paused = false
      })
      if (member.version === latest?.version) bringBack(member)
    },
    async loadWeights(weights) {
      // Nothing pauses a server for an adapter; held all the same, or it would count as having missed what it is about to get.
      const held = member.paused
      member.paused = true
      await orAside(member, `load of version ${weights.version}`, () => member.server.loadWeights(weights)).finally(() => {
        member.paused = held
      })
      member.version = weights.version
      latest = weights
      if (weights.adapter !== undefined) bringBack(member)
    },
    unloadAdapter: async (name) => (await member.server.unloadAdapter?.(name)) ?? true,
  })
  const orAside = async (member: MemberState, doing: string, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      setAside(member, `${doing} failed: ${messageOf(error)}`)
      throw error
    }
  }
  const members = states.map(tracked)

  const probeOne = async (member: MemberState) => {
    try {
      const health = await member.server.health()
      if (!health.ready) return setAside(member, "it answers, but is not ready")
      if (member.paused) return setAside(member, `${member.aside}; looked at while a weight update holds it`)
      // Even with the right label: a server that was away may have been restarted on other weights.
      member.catchingUp = latest === undefined ? member.server.resume() : catchUp(member.server, latest)
      await member.catchingUp
      member.version = latest?.version
      bringBack(member)
    } catch (error) {
      setAside(member, messageOf(error))
    } finally {
      member.catchingUp = undefined
    }
  }
  const probeAll = (due: (member: MemberState) => boolean): Promise<void> => {
    probing ??= Promise.all(states.map((member) => (member.aside !== undefined && due(member) ? probeOne(member) : undefined))).then(() => {
      probing = undefined
    })
    return probing
  }

  const onAll = async (doing: string, work: (server: InferenceServer) => Promise<void>) => {
    const results = await Promise.allSettled(members.map(work))
    outcomes = results.map((result, index) => ({
      name: states[index]!.name,
      ok: result.status === "fulfilled",
      ...(result.status === "rejected" ? { error: messageOf(result.reason) } : {}),
    }))
    if (outcomes.some((outcome) => outcome.ok)) return
    const code = toCohortError(results.map((result) => (result.status === "rejected" ? result.reason : undefined))[0], "inference_failed").code
    throw new CohortError(code, `${doing} failed on every server: ${outcomes.map((outcome) => `${outcome.name}: ${outcome.error}`).join("; ")}`)
  }

  /** Chooses and counts the request at once, so that requests of the same moment see each other's load. */
  const take = async (request: GenerateRequest, tried: Set<MemberState>): Promise<MemberState | undefined> => {
    const choose = () => {
      const known = affinity.find(request.promptIds)
      const member = chooseMember(states, tried, known === undefined ? undefined : states[known], slack)
      if (member === undefined) return undefined
      tried.add(member)
      member.load += request.n
      affinity.remember(request.promptIds, states.indexOf(member))
      return member
    }
    const now = options.now()
    for (const member of states)
      if (latest !== undefined && member.version !== latest.version && !member.paused && member.aside === undefined)
        setAside(member, `it missed version ${latest.version}`, now)
    const due = states.some((member) => member.aside !== undefined && now >= member.probeAtMs)
    const chosen = choose()
    if (due) {
      const looked = probeAll((member) => now >= member.probeAtMs)
      if (chosen === undefined) await looked
    }
    return chosen ?? choose()
  }

  return {
    name: `pool of ${states.map((member) => member.name).join(", ")}`,
    members,
    get status() {
      return states.map(statusOfMember)
    },
    get outcomes() {
      return outcomes
    },
    probe: () => probeAll(() => true),
    async generate(request): Promise<Generation[]> {
      const tried = new Set<MemberState>()
      const start = options.now()
      let last: unknown
      for (;;) {
        const member = await take(request, tried)
        if (member === undefined) {
          const left = patienceMs - (options.now() - start)
          if (left <= 0) throw nobody(states, last)
          await sleep(Math.min(probeAfterMs, left), request.signal)
          if (request.signal.aborted) throw new CohortError("aborted", "generate: aborted while no server could take it", { cause: last })
          tried.clear()
          continue
        }
        try {
          return await member.server.generate(request)
        } catch (error) {
          if (!isDeath(error)) throw error
          setAside(member, messageOf(error))
          last = error
        } finally {
          member.load -= request.n
        }
      }
    },
    pause: (mode) => onAll("pause", (server) => server.pause(mode)),
    resume: () => onAll("resume", (server) => server.resume()),
    loadWeights: (weights) => onAll(`load of version ${weights.version}`, (server) => server.loadWeights(weights)),
    async health(): Promise<ServerHealth> {
      const results = await Promise.allSettled(states.map((member) => member.server.health()))
      const ready = results.flatMap((result) => (result.status === "fulfilled" && result.value.ready ? [result.value] : []))
      if (ready.length === 0) throw nobody(states, results.find((result) => result.status === "rejected")?.reason)
      return {
        ready: true,
        running: ready.reduce((total, health) => total + health.running, 0),
        waiting: ready.reduce((total, health) => total + health.waiting, 0),
        kvUsage: Math.max(...ready.map((health) => health.kvUsage)),
        maxModelLength: Math.min(...ready.map((health) => health.maxModelLength)),
        version: Math.min(...ready.map((health) => health.version)),
      }
    },
    async close() {
      await Promise.all(states.map((member) => member.server.close()))
    },
  }
}

/** Gives a server that missed an update the latest weights. */
async function catchUp(server: InferenceServer, weights: ServerWeights): Promise<void> {
  if (weights.adapter !== undefined) return server.loadWeights(weights)
  await server.pause("keep")
  await server.loadWeights(weights)
  await server.resume()
}

/** Failures that say more about the server than about the request. An unusable answer (no status) is the request's. */
function isDeath(error: unknown): boolean {
  if (!isCohortError(error)) return false
  if (error.code === "inference_unreachable" || error.code === "timeout") return true
  return error.code === "inference_failed" && error.details?.reason !== "answer"
}

function nobody(states: readonly MemberState[], last: unknown): CohortError {
  const reasons = states.map((member) => `${member.name}: ${member.aside ?? "tried"}`).join("; ")
  return new CohortError("inference_unreachable", `no inference server can take the request (${reasons})`, {
    hint: "Start at least one of them again; the pool looks at each from time to time.",
    cause: last,
  })
}
