// The second start of the quickstart, everything cached: seconds to its first training step, and what all its processes hold at most.
// Prints one JSON line; exit code 1 over the bounds.
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const maxSeconds = 15
const maxRssBytes = 4e9
const repetitions = 3
const entry = new URL("../apps/cli/src/main.ts", import.meta.url).pathname
const runs = await mkdtemp(join(tmpdir(), "cohort-start-"))

interface Start {
  /** From the start of the process to the line of its first step. */
  readonly seconds: number
  readonly secondsToFirstStep: number
  readonly peakRssBytes: number
}

async function start(): Promise<Start> {
  const startMs = performance.now()
  const child = Bun.spawn([process.execPath, entry, "quickstart", "--json", "--steps", "2", "--seed", "0", "--runDir", runs], { stdin: "ignore", stdout: "pipe", stderr: "pipe" })
  const out = new Response(child.stdout).text()
  let seconds: number | undefined
  let said = ""
  const decoder = new TextDecoder()
  for await (const chunk of child.stderr) {
    said += decoder.decode(chunk, { stream: true })
    if (said.includes("step 1/")) seconds ??= (performance.now() - startMs) / 1000
  }
  if ((await child.exited) !== 0 || seconds === undefined) throw new Error(`the quickstart ended with ${child.exitCode}: ${said.slice(-2000)}`)
  const { secondsToFirstStep, peakRssBytes } = JSON.parse(await out) as Omit<Start, "seconds">
  return { seconds, secondsToFirstStep, peakRssBytes }
}

try {
  // The first fills the caches.
  await start()
  const starts: Start[] = []
  for (let i = 0; i < repetitions; i++) starts.push(await start())
  const sorted = starts.toSorted((a, b) => a.seconds - b.seconds)
  const median = sorted[Math.floor((repetitions - 1) / 2)]!
  const peakRssBytes = Math.max(...starts.map((one) => one.peakRssBytes))
  const ok = median.seconds < maxSeconds && peakRssBytes < maxRssBytes
  process.stdout.write(`${JSON.stringify({ name: "start/quickstart", value: Number(median.seconds.toFixed(2)), unit: "s", best: Number(sorted[0]!.seconds.toFixed(2)), secondsToFirstStep: Number(median.secondsToFirstStep.toFixed(2)), peakRssBytes, ok })}\n`)
  process.exitCode = ok ? 0 : 1
} finally {
  await rm(runs, { recursive: true, force: true })
}
