// Every bench, one after another, each in a process of its own: their JSON lines on stdout. Exit code 1 when one failed.
const programs = ["batching.ts", "batching-step.ts", "objective.ts", "train-step.ts", "decode.ts", "serving.ts", "loop.ts", "rollout.ts", "start.ts", "leak.ts"]

for (const program of programs) {
  const child = Bun.spawn([process.execPath, new URL(program, import.meta.url).pathname], { stdin: "ignore", stdout: "inherit", stderr: "inherit" })
  if ((await child.exited) === 0) continue
  process.stderr.write(`${program} ended with ${child.exitCode ?? child.signalCode}\n`)
  process.exitCode = 1
}
