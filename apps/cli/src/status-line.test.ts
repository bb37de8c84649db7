import { expect, test } from "bun:test"
import type { RunUpdate } from "@cohort/trainer"
import { createStatusLine } from "./status-line.ts"
import { painter } from "./style.ts"
import { testOutput } from "./testing.ts"

const step = (n: number, reward: number): RunUpdate => ({
  kind: "step",
  report: { step: n, totalSteps: 60, metrics: { "reward/mean": reward, samples_per_second: 1210, "age/p95": 2, "queue/depth": 3, step_seconds: 0.8, loss: -0.01 } },
})
const phase = (message: string): RunUpdate => ({ kind: "phase", phase: "model", message })

function start(isTTY: boolean, columns = 80) {
  const output = testOutput(isTTY, columns)
  const clock = { ms: 0 }
  return { output, clock, status: createStatusLine({ output, now: () => clock.ms, paint: painter(false) }) }
}

const eraseLine = "\r\u001B[2K"

/** What a terminal shows: the text after the control codes have done their work. */
function screen(text: string): string[] {
  const lines = [""]
  for (const part of text.replaceAll(eraseLine, "\r").split(/(\r|\n)/)) {
    if (part === "\n") lines.push("")
    else if (part === "\r") lines[lines.length - 1] = ""
    else lines[lines.length - 1] += part
  }
  return lines
}

test("a pipe gets one plain line a step, without control codes", () => {
  const { output, status } = start(false)
  status.update(phase("Loading the model"))
  status.update(step(1, 0.25))
  status.update(step(2, 0.5))
  status.update({ kind: "sync", report: { version: 1, seconds: 0.02, pausedSeconds: 0.01, bytes: 100 } })
  status.close()
  expect(output.text.split("\n")).toEqual([
    "Loading the model",
    "step 1/60  reward 0.250  loss -0.010  1,210 samples/s  age p95 2  queue 3  0.80 s",
    "step 2/60  reward 0.500  loss -0.010  1,210 samples/s  age p95 2  queue 3  0.80 s",
    "",
  ])
})

test("a terminal has one live line, under the lines that stay", () => {
  const { output, clock, status } = start(true)
  status.update(phase("Loading the model"))
  expect(screen(output.text)).toEqual(["Loading the model"])
  status.update({ kind: "warning", message: "slow backend" })
  expect(screen(output.text)).toEqual(["warning: slow backend", "Loading the model"])
  clock.ms = 1000
  status.update(step(1, 0.25))
  clock.ms = 2000
  status.update(step(2, 0.5))
  expect(screen(output.text)).toEqual(["warning: slow backend", "train 2/60  ▁█ reward 0.500  1,210 samples/s  age 2  queue 3"])
  status.close()
  status.print("done")
  expect(screen(output.text)).toEqual(["warning: slow backend", "done", ""])
})

test("fast updates are drawn at most ten times a second, and the next one shows the newest", () => {
  const { output, clock, status } = start(true)
  status.update(step(1, 0))
  const before = output.text.length
  for (let n = 2; n < 50; n++) status.update(step(n, n / 50))
  expect(output.text.length).toBe(before)
  clock.ms = 150
  status.update(step(50, 1))
  expect(screen(output.text).at(-1)).toStartWith("train 50/60")
})

test("the live line never reaches the last column", () => {
  const { output, status } = start(true, 20)
  status.update(phase("A message of 日本語 that is far longer than the terminal is wide"))
  expect(Bun.stringWidth(screen(output.text).at(-1)!)).toBeLessThan(20)
})

test("a pipe hears of a download at its start, every five seconds and at its end", () => {
  const { output, clock, status } = start(false)
  for (let done = 0; done <= 100; done++) {
    clock.ms = done * 120
    status.update({ kind: "progress", message: "Downloading (274 MB)", done, total: 100 })
  }
  expect(output.text.trim().split("\n")).toEqual(["Downloading (274 MB) 0%", "Downloading (274 MB) 42%", "Downloading (274 MB) 84%", "Downloading (274 MB) 100%"])
})
