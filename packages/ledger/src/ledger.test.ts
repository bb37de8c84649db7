import { Database } from "bun:sqlite"
import { afterAll, expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { schemaVersion } from "./migrations.ts"
import { type LedgerOptions, openLedger } from "./ledger.ts"
import { openLedgerReader } from "./reader.ts"

const folder = mkdtempSync(join(tmpdir(), "cohort-ledger-"))
afterAll(() => rmSync(folder, { recursive: true }))
let files = 0
const newPath = (): string => join(folder, `${files++}.db`)
const open = (path: string, options: Partial<LedgerOptions> = {}) => openLedger(path, { now: () => 1000, ...options })
const codeOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    return error instanceof CohortError ? error.code : String(error)
  }
  return "nothing thrown"
}

test("events come back as they were written, in order, by filter and after an id", () => {
  const path = newPath()
  using ledger = open(path)
  const first = { kind: "group.admitted", atMs: 1.5, step: 3, version: 2, groupId: "g0", occurrence: 0, rolloutId: "g0.1", reason: "room", data: { row: "a", n: [1, null] } }
  ledger.append(first)
  ledger.append({ kind: "worker.state", atMs: 2 })
  ledger.append({ kind: "group.dropped", atMs: 3, groupId: "g0", occurrence: 0, reason: "stale" })
  expect(ledger.events()).toEqual([{ id: 1, ...first }, { id: 2, kind: "worker.state", atMs: 2 }, { id: 3, kind: "group.dropped", atMs: 3, groupId: "g0", occurrence: 0, reason: "stale" }])
  expect(ledger.events({ occurrence: 0 }, 1).map(({ id }) => id)).toEqual([3])
  expect(ledger.events({ kinds: ["worker.state", "group.admitted"] }).map(({ id }) => id)).toEqual([1, 2])
  expect(ledger.events({ groupId: "g0", kinds: ["group.dropped"] }).map(({ id }) => id)).toEqual([3])
  expect(ledger.events({}, 0, 2)).toHaveLength(2)
  expect(ledger.lastEventId()).toBe(3)
})

test("metrics by step and by name; a repeated step overwrites, what is not finite is null", () => {
  using ledger = open(newPath())
  ledger.metrics(1, { "loss/value": 2, reward: 0.5 })
  ledger.metrics(2, { "loss/value": Number.NaN, reward: Number.POSITIVE_INFINITY })
  ledger.metrics(1, { reward: 0.75 })
  expect(ledger.metricSeries("reward")).toEqual([{ step: 1, value: 0.75, atMs: 1000 }, { step: 2, value: null, atMs: 1000 }])
  expect(ledger.metricSeries("reward", 2)).toHaveLength(1)
  expect(ledger.metricsAt(1)).toEqual({ "loss/value": 2, reward: 0.75 })
  expect(ledger.metricNames()).toEqual(["loss/value", "reward"])
})

test("pending events are written by size and by time", () => {
  const path = newPath()
  const timers: (() => void)[] = []
  using ledger = open(path, { maxPending: 3, schedule: (run) => {
    timers.push(run)
    return () => undefined
  } })
  using reader = openLedgerReader(path)
  ledger.append({ kind: "a", atMs: 0 })
  ledger.append({ kind: "b", atMs: 0 })
  expect(reader.lastEventId()).toBe(0)
  ledger.append({ kind: "c", atMs: 0 })
  expect(reader.lastEventId()).toBe(3)
  ledger.append({ kind: "d", atMs: 0 })
  timers.at(-1)!()
  expect(reader.lastEventId()).toBe(4)
  expect(ledger.pending).toBe(0)
})

test("a full disk is typed, keeps what is pending, goes on reading, and heals", () => {
  const path = newPath()
  const ledger = open(path, { maxBytes: 100 * 1024, maxPending: 10 })
  const big = { kind: "big", atMs: 0, data: { filler: "x".repeat(2000) } }
  let written = 0
  const code = codeOf(() => {
    for (; written < 1000; written++) ledger.append({ ...big, occurrence: written })
  })
  expect(code).toBe("disk_full")
  expect(ledger.failure?.code).toBe("disk_full")
  const kept = ledger.pending
  expect(kept).toBeGreaterThan(0)
  const committed = ledger.lastEventId()
  expect(committed + kept).toBe(written)
  expect(committed).toBeGreaterThan(0)
  expect(codeOf(() => ledger.append(big))).toBe("disk_full")
  expect(ledger.pending).toBe(kept)
  using reader = openLedgerReader(path)
  expect(reader.events({}, 0, 5)).toHaveLength(5)
  // The user deletes what takes the room.
  const other = new Database(path)
  other.run("DELETE FROM events WHERE id <= 20")
  other.close()
  ledger.append({ kind: "small", atMs: 0 })
  ledger.flush()
  expect(ledger.failure).toBeUndefined()
  expect(reader.events({ kinds: ["big"] }, 0, 2000).map(({ occurrence }) => occurrence)).toEqual(Array.from({ length: written - 20 }, (_, i) => i + 20))
  ledger.close()
})

test("one writer: a second is refused by name until the first closes; readers are not", () => {
  const path = newPath()
  const first = open(path)
  expect(codeOf(() => open(path))).toBe("file_invalid")
  expect(() => open(path)).toThrow("being written by another process")
  openLedgerReader(path).close()
  first.close()
  first.close()
  open(path).close()
  expect(codeOf(() => first.append({ kind: "late", atMs: 0 }))).toBe("internal")
})

/** A writer that never stops by itself and says what it has flushed. */
const endlessWriter = (path: string): string => `
  import { openLedger } from ${JSON.stringify(join(import.meta.dir, "index.ts"))}
  const ledger = openLedger(${JSON.stringify(path)}, { now: Date.now, maxPending: 1000 })
  for (let occurrence = 0; ; occurrence++) {
    ledger.append({ kind: "group.admitted", atMs: occurrence, occurrence, data: { filler: "x".repeat(200) } })
    if (occurrence % 10 !== 9) continue
    ledger.flush()
    process.stdout.write(occurrence + 1 + "\\n")
    await Bun.sleep(1)
  }`

test("a killed writer leaves a readable file with everything it had flushed, and the next writer goes on", async () => {
  const path = newPath()
  const child = Bun.spawn([process.execPath, "-e", endlessWriter(path)], { stdout: "pipe", stderr: "inherit" })
  let reported = 0
  let text = ""
  for await (const chunk of child.stdout) {
    text += new TextDecoder().decode(chunk)
    reported = Math.max(0, ...text.split("\n").slice(0, -1).map(Number))
    if (reported >= 200 && !child.killed) {
      // Readers open beside the running writer.
      using reader = openLedgerReader(path)
      expect(reader.lastEventId()).toBeGreaterThanOrEqual(200)
      child.kill("SIGKILL")
    }
  }
  await child.exited
  expect(reported).toBeGreaterThanOrEqual(200)
  {
    using reader = openLedgerReader(path)
    const occurrences = reader.events({}, 0, 1_000_000).map(({ occurrence }) => occurrence)
    expect(occurrences.length).toBeGreaterThanOrEqual(reported)
    expect(occurrences).toEqual(Array.from({ length: occurrences.length }, (_, i) => i))
  }
  using ledger = open(path)
  ledger.append({ kind: "run.resumed", atMs: 0, step: 0 })
  expect(ledger.audit().counts.lost).toBeGreaterThanOrEqual(reported)
  const check = new Database(path)
  expect(check.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get()?.integrity_check).toBe("ok")
  check.close()
})

test("files that are no ledger, of a newer program, or missing are refused by name", () => {
  const text = newPath()
  writeFileSync(text, "this is not a database at all, but it is long enough to look like one".repeat(20))
  expect(codeOf(() => open(text))).toBe("file_invalid")
  expect(codeOf(() => openLedgerReader(text))).toBe("file_invalid")
  const newer = newPath()
  open(newer).close()
  const db = new Database(newer)
  db.run(`PRAGMA user_version = ${schemaVersion + 1}`)
  db.close()
  expect(() => open(newer)).toThrow(`layout ${schemaVersion + 1}`)
  expect(codeOf(() => openLedgerReader(newPath()))).toBe("file_invalid")
  expect(codeOf(() => open(join(folder, "no", "such", "folder.db")))).toBe("file_invalid")
  const empty = newPath()
  new Database(empty).close()
  writeFileSync(empty, "")
  expect(() => openLedgerReader(empty)).toThrow("without a ledger")
})

test("an event whose data has no JSON is refused at once and nothing else is lost", () => {
  using ledger = open(newPath())
  const cycle: Record<string, unknown> = {}
  cycle["self"] = cycle
  expect(() => ledger.append({ kind: "bad", atMs: 0, data: cycle })).toThrow()
  ledger.append({ kind: "good", atMs: 0 })
  expect(ledger.events().map(({ kind }) => kind)).toEqual(["good"])
})
