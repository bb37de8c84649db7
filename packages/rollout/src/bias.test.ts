import { expect, test } from "bun:test"
import { createBiasMonitor } from "./bias.ts"

/** Groups 0 to 99 of one and ten seconds by turns; `keep` says which are trained. */
function feed(keep: (slow: boolean) => boolean, environmentOf: (slow: boolean) => string | undefined = () => undefined) {
  const monitor = createBiasMonitor()
  for (let i = 0; i < 100; i++) {
    const slow = i % 2 === 1
    const groupId = `g${i}`
    const at = i * 100
    const environment = environmentOf(slow)
    monitor.event({ kind: "group.admitted", atMs: at, groupId, data: environment === undefined ? {} : { environment } })
    monitor.event({ kind: "rollout.generated", atMs: at + 10, groupId, data: { tokens: slow ? 300 : 100 } })
    monitor.event({ kind: "group.queued", atMs: at + (slow ? 10_000 : 1000), groupId })
    monitor.event({ kind: keep(slow) ? "group.trained" : "group.dropped", atMs: at + 50_000, groupId })
  }
  return monitor.report()
}

test("no difference where all are trained, nor where chance alone drops", () => {
  const report = feed(() => true)
  expect(report).toMatchObject({ ended: 100, trained: 100, length: 1, duration: 1, durationP90: 1, environments: { none: 1 }, alarm: null })
})

test("slow groups that never train are an alarm with its direction", () => {
  const report = feed((slow) => !slow, (slow) => (slow ? "browser" : "arithmetic"))
  expect(report.duration).toBeCloseTo(1000 / 5500)
  expect(report.length).toBeCloseTo(100 / 200)
  expect(report.environments).toEqual({ arithmetic: 2, browser: 0 })
  expect(report.alarm).toContain("slow prompts are trained too rarely")
  expect(report.alarm).toContain("environment browser is trained 0.00 times as often")
})

test("too few groups say nothing; given back ones do not count", () => {
  const monitor = createBiasMonitor({ least: 4 })
  for (const groupId of ["a", "b", "c", "d", "e"]) monitor.event({ kind: "group.admitted", atMs: 0, groupId })
  for (const groupId of ["a", "b"]) monitor.event({ kind: "group.trained", atMs: 5, groupId })
  for (const groupId of ["c", "d"]) monitor.event({ kind: "group.givenBack", atMs: 5, groupId })
  expect(monitor.report()).toMatchObject({ ended: 2, duration: null, environments: {}, alarm: null })
})
