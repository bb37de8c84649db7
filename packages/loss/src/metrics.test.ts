import { expect, test } from "bun:test"
import { metricDefinitions, metricTable, summarizeMetrics } from "./definitions.ts"
import { EMPTY_METRICS, METRIC_NAMES, addMetrics, meanOfPasses, unpackMetrics } from "./metrics.ts"

const vector = METRIC_NAMES.map((_, index) => index + 1)

test("names follow the vector's order, and its length is checked", () => {
  expect(Object.values(unpackMetrics(vector))).toEqual(vector)
  expect(Object.keys(unpackMetrics(vector))).toEqual([...METRIC_NAMES])
  expect(() => unpackMetrics([1, 2])).toThrow("this one 2")
})

test("sums add, maxima take the larger, NaN stays", () => {
  const metrics = unpackMetrics(vector)
  const twice = addMetrics(metrics, metrics)
  expect(twice.tokens).toBe(2)
  expect(twice.ratioMax).toBe(metrics.ratioMax)
  expect(addMetrics(metrics, EMPTY_METRICS)).toEqual(metrics)
  expect(addMetrics({ ...metrics, ratioMax: Number.NaN }, metrics).ratioMax).toBeNaN()
})

test("two equal passes are one", () => {
  const metrics = unpackMetrics(vector)
  expect(meanOfPasses(addMetrics(metrics, metrics), 2)).toEqual(metrics)
})

test("without tokens a mean is absent, not NaN", () => {
  const summary = summarizeMetrics(EMPTY_METRICS)
  expect(summary["loss"]).toBe(0)
  expect(summary["ratio/mean"]).toBeNull()
  expect(Object.values(summary).some(Number.isNaN)).toBe(false)
})

test("each metric is defined once, and the table has a row for each", () => {
  const names = metricDefinitions.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  const table = metricTable().split("\n")
  expect(table).toHaveLength(names.length + 2)
  for (const line of table) expect(line.replaceAll("\\|", "").split("|")).toHaveLength(6)
})
