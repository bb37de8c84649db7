// Groups that were dropped between two steps, by reason: what the step's figures tell of them.
import { kinds } from "@cohort/ledger"

export interface DropCounter {
  event(event: { readonly kind: string; readonly reason?: string }): void
  /** Counts since the last call. */
  take(): Readonly<Record<string, number>>
}

export function createDropCounter(): DropCounter {
  let counts = new Map<string, number>()
  return {
    event({ kind, reason = "unknown" }) {
      if (kind === kinds.dropped) counts.set(reason, (counts.get(reason) ?? 0) + 1)
    },
    take() {
      const taken = Object.fromEntries(counts)
      counts = new Map()
      return taken
    },
  }
}
