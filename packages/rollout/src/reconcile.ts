// Turns into training rows. Each turn carries the whole prompt it was generated from; where that prompt continues the row
// held so far the row grows, where it rewrites history the row is closed and a new one opens. Every generated token is
// trained at most once.
import { CohortError } from "@cohort/errors"

/** One generation: the whole prompt it saw and what came out, arrays of equal length. */
export interface TurnRecord {
  readonly promptIds: Int32Array
  readonly tokenIds: Int32Array
  readonly logProbs: Float32Array
  /** Policy version per generated token. */
  readonly versions: Int32Array
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
  readonly clean: number
  readonly realign: number
  readonly fork: number
  /** Generated or context tokens that a realignment replaced. */
  readonly driftTokens: number
}

interface OpenRow {
  readonly ids: number[]
  readonly mask: number[]
  readonly logProbs: number[]
  readonly versions: number[]
  /** Where the latest answer begins. */
  answerStart: number
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
  const tally = { clean: 0, realign: 0, fork: 0, driftTokens: 0 }
  for (const turn of turns) {
    assertAligned(turn)
    let row = rows.at(-1)
    if (row === undefined) {
      row = openRow(rows, turn.promptIds)
    } else {
      const matched = commonPrefix(row.ids, turn.promptIds)
      const drift = row.ids.length - matched
      if (drift === 0) {
        tally.clean++
        appendContext(row, turn.promptIds, matched)
      } else if (matched >= row.answerStart && drift < threshold) {
        tally.realign++
        tally.driftTokens += drift
        for (const column of [row.ids, row.mask, row.logProbs, row.versions]) column.length = matched
        appendContext(row, turn.promptIds, matched)
      } else {
        tally.fork++
        row = openRow(rows, turn.promptIds)
      }
    }
    row.answerStart = row.ids.length
    for (let i = 0; i < turn.tokenIds.length; i++) {
      row.ids.push(turn.tokenIds[i]!)
      row.mask.push(1)
      row.logProbs.push(turn.logProbs[i]!)
      row.versions.push(turn.versions[i]!)
    }
  }
  return { rows: rows.filter((row) => row.mask.includes(1)).map(closeRow), tally }
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

function openRow(rows: OpenRow[], promptIds: Int32Array): OpenRow {
  const row: OpenRow = { ids: [], mask: [], logProbs: [], versions: [], answerStart: 0 }
  rows.push(row)
  appendContext(row, promptIds, 0)
  return row
}

function appendContext(row: OpenRow, promptIds: Int32Array, from: number): void {
  for (let i = from; i < promptIds.length; i++) {
    row.ids.push(promptIds[i]!)
    row.mask.push(0)
    row.logProbs.push(0)
    row.versions.push(-1)
  }
}

function commonPrefix(held: readonly number[], prompt: Int32Array): number {
  const limit = Math.min(held.length, prompt.length)
  let i = 0
  while (i < limit && held[i] === prompt[i]) i++
  return i
}

function closeRow(row: OpenRow): TokenRow {
  return {
    tokenIds: Int32Array.from(row.ids),
    lossMask: Uint8Array.from(row.mask),
    behaviorLogProbs: Float32Array.from(row.logProbs),
    versions: Int32Array.from(row.versions),
  }
}
