// Turns into training rows. Each turn carries the whole prompt it was generated from; where that prompt continues the row
// held so far the row grows, where it rewrites history the row is closed and a new one opens. Every generated token is
// trained at most once.
import { CohortError } from "@cohort/errors"
import { OpenRow } from "./open-row.ts"

/** One generation: the whole prompt it saw and what came out, arrays of equal length. */
export interface TurnRecord {
  readonly promptIds: Int32Array
  readonly tokenIds: Int32Array
  readonly logProbs: Float32Array
  /** Policy version per generated token. */
  readonly versions: Int32Array
  /** The prompt was made by appending to prompt and answer of the turn before: there is nothing to compare. */
  readonly continues?: boolean
}

/** One row of a rollout; arrays of equal length, log-prob 0 and version -1 where the mask is 0. */
export interface TokenRow {
  readonly tokenIds: Int32Array
  readonly lossMask: Uint8Array
  readonly behaviorLogProbs: Float32Array
  readonly versions: Int32Array
}

/** How the turns after the first joined the row before them. */
export interface ReconcileTally {
  /** Turns after the first. */
  readonly transitions: number
  readonly clean: number
  readonly realign: number
  readonly fork: number
  /** Held tokens that realignments replaced, in all and at most at once. */
  readonly driftTokens: number
  readonly driftMax: number
}

/**
 * Joins turns into rows.
 *
 * CLEAN: the new prompt begins with everything held; its rest is context. REALIGN: they differ only inside the latest
 * answer and by fewer than `forkThresholdTokens` held tokens; the tail is replaced and leaves training. FORK otherwise: a
 * new row. Rows without a trained token are left out.
 *
 * @throws CohortError `internal` when the arrays of a turn differ in length.
 * @example
 * reconcile([{ promptIds, tokenIds, logProbs, versions }]).rows[0].lossMask // 0 for the prompt, 1 for the answer
 */
export function reconcile(
  turns: readonly TurnRecord[],
  options: { readonly forkThresholdTokens?: number } = {},
): { readonly rows: readonly TokenRow[]; readonly tally: ReconcileTally } {
  const threshold = options.forkThresholdTokens ?? 1024
  const rows: OpenRow[] = []
  const last = turns.at(-1)
  const room = (last?.promptIds.length ?? 0) + (last?.tokenIds.length ?? 0)
  const tally = { transitions: 0, clean: 0, realign: 0, fork: 0, driftTokens: 0, driftMax: 0 }
  for (const turn of turns) {
    assertAligned(turn)
    let row = rows.at(-1)
    if (row === undefined) {
      row = openRow(rows, turn.promptIds, room)
    } else {
      const matched = turn.continues === true ? row.length : row.commonPrefix(turn.promptIds)
      const drift = row.length - matched
      tally.transitions++
      if (drift === 0) {
        tally.clean++
        row.appendContext(turn.promptIds, matched)
      } else if (matched >= row.answerStart && drift < threshold) {
        tally.realign++
        tally.driftTokens += drift
        tally.driftMax = Math.max(tally.driftMax, drift)
        row.truncate(matched)
        row.appendContext(turn.promptIds, matched)
      } else {
        tally.fork++
        row = openRow(rows, turn.promptIds, room)
      }
    }
    row.appendAnswer(turn)
  }
  return { rows: rows.filter((row) => row.isTrained()).map((row) => row.close()), tally }
}

function assertAligned(turn: TurnRecord): void {
  const { length } = turn.tokenIds
  if (turn.logProbs.length !== length || turn.versions.length !== length)
    throw new CohortError(
      "internal",
      `a turn has ${length} token ids, ${turn.logProbs.length} log-probs and ${turn.versions.length} versions`,
      { hint: "The three arrays of a turn must have one entry per generated token." },
    )
}

function openRow(rows: OpenRow[], promptIds: Int32Array, room: number): OpenRow {
  const row = new OpenRow(room)
  rows.push(row)
  row.appendContext(promptIds, 0)
  return row
}
