// Runs a Python peer: one JSON object in, one out. COHORT_BENCH_PYTHON names an interpreter that has the peer's packages.

/** Undefined where no interpreter is named: the figure is then printed without its peer. */
export async function runPeer(script: string, task: unknown): Promise<Record<string, number> | undefined> {
  const python = process.env["COHORT_BENCH_PYTHON"]
  if (python === undefined) return undefined
  const child = Bun.spawn([python, new URL(`python/${script}`, import.meta.url).pathname], { stdin: "pipe", stdout: "pipe", stderr: "pipe" })
  child.stdin.write(JSON.stringify(task))
  await child.stdin.end()
  const [out, errors, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new Error(`${script} ended with ${code}: ${errors.trim().split("\n").at(-1)}`)
  return JSON.parse(out.trim().split("\n").at(-1)!)
}

/** Prints one figure as a JSON line. */
export function figure(name: string, values: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify({ figure: name, ...values })}\n`)
}
