import { expect, test } from "bun:test"
import fc from "fast-check"
import { auditAccount } from "./audit.ts"
import type { LedgerEvent } from "./event.ts"
import { accountOccurrences } from "./occurrences.ts"
import { summarize } from "./summary.ts"

type Line = readonly [kind: string, occurrence?: number | undefined, rest?: Partial<LedgerEvent>]
const eventsOf = (lines: readonly Line[]): LedgerEvent[] =>
  lines.map(([kind, occurrence, rest], index) => ({ id: index + 1, kind, atMs: index, ...(occurrence === undefined ? {} : { occurrence }), ...rest }))
const audit = (lines: readonly Line[], ended = false) => auditAccount(accountOccurrences(eventsOf(lines)), ended)

test("a clean run: each occurrence ends once", () => {
  const result = audit([
    ["group.admitted", 0], ["group.admitted", 1], ["group.admitted", 2],
    ["group.trained", 1, { step: 1 }], ["group.dropped", 0, { reason: "stale" }], ["group.givenBack", 2],
  ], true)
  expect(result).toEqual({ ok: true, violations: [], counts: { open: 0, trained: 1, dropped: 1, givenBack: 1, lost: 0 }, missing: [] })
})

test("each contradiction is named with its event", () => {
  const messages = (lines: readonly Line[]) => audit(lines).violations.map(({ eventId, message }) => `${eventId}: ${message}`)
  expect(messages([["group.trained", 4]])).toEqual(["1: occurrence 4 was ended by group.trained but was never admitted"])
  expect(messages([["group.admitted", 0], ["group.admitted", 0]])).toEqual(["2: occurrence 0 was admitted again but is open since event 1"])
  expect(messages([["group.admitted", 0], ["group.trained", 0], ["group.trained", 0]])).toEqual(["3: occurrence 0 was ended by group.trained but is trained since event 2"])
  expect(messages([["group.admitted", 0], ["group.dropped", 0], ["group.trained", 0]])).toEqual(["3: occurrence 0 was ended by group.trained but is dropped since event 2"])
  expect(messages([["group.admitted", 0], ["group.trained", 0], ["group.admitted", 0]])).toHaveLength(1)
})

test("an ended run has nothing open and no hole", () => {
  const lines: Line[] = [["group.admitted", 0], ["group.trained", 0, { step: 1 }], ["group.admitted", 2]]
  expect(audit(lines)).toMatchObject({ ok: true, missing: [1] })
  expect(audit(lines, true).violations.map(({ message }) => message)).toEqual([
    "occurrence 2 is open although the run ended",
    "occurrence 1 was never admitted",
  ])
})

test("a resume undoes what was trained after the checkpoint, and lost work must come again", () => {
  const crashed: Line[] = [
    ["group.admitted", 0], ["group.admitted", 1], ["group.admitted", 2], ["group.admitted", 3],
    ["group.trained", 0, { step: 1 }], ["group.trained", 1, { step: 2 }], ["group.dropped", 3, { version: 1, reason: "stale" }],
    ["run.resumed", undefined, { step: 1 }],
  ]
  expect(audit(crashed).counts).toEqual({ trained: 1, lost: 2, dropped: 1, open: 0, givenBack: 0 })
  expect(audit(crashed, true).ok).toBe(false)
  const again: Line[] = [...crashed, ["group.admitted", 1], ["group.admitted", 2], ["group.admitted", 3], ["group.trained", 1, { step: 2 }], ["group.trained", 2, { step: 2 }], ["group.trained", 3, { step: 3 }]]
  expect(audit(again, true)).toMatchObject({ ok: true, counts: { trained: 4 } })
  expect(audit([...crashed, ["group.admitted", 0]]).ok).toBe(false)
})

test("any valid history is clean, and any one event taken out or doubled is found", () => {
  const history = fc.array(fc.constantFrom("group.trained", "group.dropped", "twice"), { minLength: 1, maxLength: 12 }).map((ends) =>
    ends.flatMap((end, occurrence): Line[] =>
      end === "twice"
        ? [["group.admitted", occurrence], ["group.givenBack", occurrence], ["group.admitted", occurrence], ["group.trained", occurrence, { step: 1 }]]
        : [["group.admitted", occurrence], [end, occurrence, { step: 1 }]],
    ),
  )
  fc.assert(
    fc.property(history, fc.nat(), fc.boolean(), (lines, pick, doubled) => {
      expect(audit(lines, true).ok).toBe(true)
      const at = pick % lines.length
      const broken = doubled ? lines.toSpliced(at, 0, lines[at]!) : lines.toSpliced(at, 1)
      expect(audit(broken, true).ok).toBe(false)
    }),
    { seed: 5, numRuns: 200 },
  )
})

test("the summary adds up drops, syncs and token-weighted ages", () => {
  const summary = summarize(eventsOf([
    ["group.dropped", 0, { reason: "stale" }], ["group.dropped", 1, { reason: "stale" }], ["group.dropped", 2],
    ["weights.pushed", undefined, { data: { seconds: 2, pausedSeconds: 0.5, bytes: 100 } }], ["weights.pushed", undefined, { data: { seconds: 1 } }], ["weights.failed"],
    ["group.trained", 3, { version: 5, data: { oldestVersion: 5, trainedTokens: 90 } }],
    ["group.trained", 4, { version: 5, data: { oldestVersion: 2, trainedTokens: 10 } }],
    ["group.trained", 5, { version: 5 }],
  ]), 9)
  expect(summary).toEqual({
    events: 9,
    dropsByReason: { stale: 2, unknown: 1 },
    weightSyncs: { pushed: 2, failed: 1, seconds: 3, pausedSeconds: 0.5, bytes: 100 },
    ages: { mean: 0.3, p50: 0, p95: 3, max: 3 },
    trainedWithoutAge: 1,
  })
})
