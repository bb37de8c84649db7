import { expect, test } from "bun:test"
import { sampleOf } from "../test/samples.ts"
import { collate } from "./collate.ts"
import { collatePacked } from "./collate-packed.ts"
import { planPacked } from "./pack.ts"
import { trainedPlaces } from "./places.ts"
import type { MicroBatch } from "./sample.ts"
import { splitRows } from "./split.ts"

// One has no trained token, another nothing that is predicted.
const samples = [9, 4, 7, 5, 3, 6, 8, 1].map((length, index) => ({ ...sampleOf(length, `s${index}`, length === 5 ? 0 : Math.floor(length / 2)), groupId: `${index % 3}`, advantage: index - 2 }))
const plain = { ...collate(samples, { rows: 9, length: 10 }, { version: 5 }), referenceLogProbs: Float32Array.from({ length: 90 }, (_, at) => -at) }
const plan = planPacked(samples, { buckets: [{ rows: 5, length: 12 }], share: "always", samplesPerRow: 4 })
const packed = collatePacked(plan.batches[0]!, plan.samplesPerRow)

/** Log-probs of each sample's trained tokens, which name the tokens. */
const trainedOf = (batches: readonly MicroBatch[]) => batches.flatMap((batch) => trainedPlaces(batch).map((places, index) => [batch.sampleIds[index], ...places.map((at) => batch.behaviorLogProbs[at])]))

test.each([["plain", plain], ["packed", packed]] as const)("%s rows: parts hold what the batch holds, in its order", (_, batch) => {
  for (const parts of [1, 2, 3, 4, 20]) {
    const split = splitRows(batch, parts)
    expect(split.length).toBe(Math.min(parts, batch.rows))
    const rows = split.map((part) => part.rows)
    expect(Math.max(...rows) - Math.min(...rows)).toBeLessThanOrEqual(1)
    expect(trainedOf(split)).toEqual(trainedOf([batch]))
    for (const [name, whole] of Object.entries({ ...batch, ...batch.packed }))
      if (ArrayBuffer.isView(whole)) expect([name, split.flatMap((part) => [...(({ ...part, ...part.packed }) as unknown as Record<string, Float32Array>)[name]!])]).toEqual([name, [...(whole as Float32Array)]])
    for (const total of ["rows", "trainedTokens", "forwardedTokens"] as const) expect(split.reduce((sum, part) => sum + part[total], 0)).toBe(batch[total])
    for (const part of split) expect([part.length, part.packed?.samplesPerRow]).toEqual([batch.length, batch.packed?.samplesPerRow])
  }
})

test("a part may be padding alone", () => {
  const parts = splitRows(collate(samples.slice(0, 1), { rows: 2, length: 10 }), 2)
  expect(parts.map(({ sampleIds, forwardedTokens }) => [sampleIds.length, forwardedTokens])).toEqual([[1, 8], [0, 0]])
})
