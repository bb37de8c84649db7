// How many groups in a row may end untrained before the run is told: nothing drops for ever in silence.
import { CohortError } from "@cohort/errors"
import { codeOfReason, hintOfReason } from "./drop-reason.ts"
import type { DropReason } from "./generation.ts"

/** Drops by a rule of the run, as opposed to failures. */
const filteredReasons: ReadonlySet<DropReason> = new Set([
  "zero_spread", "advantages_undefined", "prompt_too_long", "prompt_empty", "empty_completion", "stale", "version_invalid",
])

export interface DropLimits {
  readonly maxConsecutiveFailures: number
  readonly maxConsecutiveFiltered: number
  /** Groups without spread that may be replaced between two steps; no limit of its own without it. */
  readonly maxReplacedPerStep?: number
}

/** Counts drops in a row, failures and filtered groups apart. */
export class DropBudget {
  readonly #limits: DropLimits
  #failures = 0
  #filtered = 0
  #released = 0
  #replaced = 0
  /** Of the last group that ended in a failure. */
  lastError: string | undefined

  constructor(limits: DropLimits) {
    this.#limits = limits
  }

  /** A group was generated and scored. */
  generated(): void {
    this.#failures = 0
  }

  /** A group reached the trainer. */
  taken(): void {
    this.#filtered = 0
  }

  /** The trainer took a step. */
  stepped(): void {
    this.#released = 0
    this.#replaced = 0
  }

  /**
   * The trainer cannot train a group that it took.
   *
   * @throws CohortError `config_invalid` when as many as may be filtered were released since the last step.
   */
  released(reason: string): void {
    if (++this.#released < this.#limits.maxConsecutiveFiltered) return
    throw new CohortError("config_invalid", `${this.#released} groups were taken and not trained since the last step; the last one: ${reason}`, {
      hint: "No group fits what the trainer can train: raise its token budget, or bound prompts and completions.",
      details: { reason, groups: this.#released },
    })
  }

  /** @throws CohortError with the code of the last reason when the limit is reached. */
  dropped(reason: DropReason, error: string): void {
    const filtered = filteredReasons.has(reason)
    if (!filtered) this.lastError = `${reason}: ${error}`
    if (reason === "zero_spread") this.#countReplaced()
    const groups = filtered ? ++this.#filtered : ++this.#failures
    if (groups < (filtered ? this.#limits.maxConsecutiveFiltered : this.#limits.maxConsecutiveFailures)) return
    throw new CohortError(codeOfReason(reason), `${groups} groups in a row were dropped; the last one: ${reason}: ${error}`, {
      hint: hintOfReason(reason),
      details: { reason, groups },
    })
  }

  #countReplaced(): void {
    const { maxReplacedPerStep: most = Number.POSITIVE_INFINITY } = this.#limits
    if (++this.#replaced <= most) return
    throw new CohortError("worker_failed", `${this.#replaced} groups without spread were replaced since the last step; ${most} may be`, { hint: hintOfReason("zero_spread"), details: { reason: "zero_spread", groups: this.#replaced } })
  }
}
