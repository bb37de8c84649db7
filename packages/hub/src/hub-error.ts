// What the hub, the network or the hub's library throw, as typed errors that say what to do.
import { CohortError, type CohortErrorCode, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import type { HubRepo, RepoKind } from "./client.ts"

export const codes = { dataset: "dataset_invalid", model: "model_invalid" } as const satisfies Record<RepoKind, CohortErrorCode>

/** @param cached whether the cache has this revision */
export function hubError(thrown: unknown, repo: HubRepo, endpoint: string, cached: boolean): CohortError {
  if (isCohortError(thrown)) return thrown
  const typed = toCohortError(thrown, codes[repo.kind])
  if (typed.code !== codes[repo.kind] && typed.code !== "timeout") return typed
  // Only files have a path: the cache cannot be written or read.
  if (thrown instanceof Error && "syscall" in thrown && "path" in thrown)
    return new CohortError(codes[repo.kind], `the cache of the hub: ${thrown.message}`, { hint: "HF_HUB_CACHE names another folder for it.", cause: thrown })
  const what = `${repo.kind} ${repo.name} at ${repo.revision}`
  const status = statusOf(thrown)
  const details = { repo: repo.name, revision: repo.revision, endpoint, ...(status === undefined ? {} : { status }) }
  if (status === undefined) {
    const reason = typed.code === "timeout" ? "no answer in time" : messageOf(thrown)
    const offline = cached ? "Set HF_HUB_OFFLINE=1 to use the copy in the cache, or try again" : "Check the network, or give the path of a local copy"
    return new CohortError(codes[repo.kind], `${what}: ${endpoint} cannot be reached: ${reason}`, { hint: `${offline}; HF_ENDPOINT names another hub.`, cause: thrown, details })
  }
  const hint =
    status === 403 ? "It is gated: accept its terms on its page with the account of HF_TOKEN."
    : status === 401 || status === 404 ? "Check the name and the revision; a private or gated one needs HF_TOKEN."
    : "Try again later."
  return new CohortError(codes[repo.kind], `${what}: the hub answered ${status}: ${messageOf(thrown)}`, { hint, cause: thrown, details })
}

/** HTTP status of an error of the hub's library. */
function statusOf(thrown: unknown): number | undefined {
  return typeof thrown === "object" && thrown !== null && "statusCode" in thrown && typeof thrown.statusCode === "number" ? thrown.statusCode : undefined
}
