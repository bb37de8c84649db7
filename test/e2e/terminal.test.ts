// A run in a real terminal, started as the README says: the live line, and Ctrl-C typed on the keyboard.
import { expect } from "bun:test"
import { repository, small, temporaryFolder, testRun, until } from "./program.ts"

testRun("one live line is redrawn, and one Ctrl-C ends the run with its summary", async () => {
  const runs = await temporaryFolder()
  let text = ""
  const decoder = new TextDecoder()
  const child = Bun.spawn([process.execPath, "run", "quickstart", "--steps", "100000", "--runDir", runs, ...small], {
    cwd: repository,
    env: { ...process.env, TERM: "xterm-256color" },
    terminal: { cols: 80, rows: 24, data: (_, data) => void (text += decoder.decode(data, { stream: true })) },
  })
  try {
    await until(() => /train [3-9]\/100000/.test(text), 60_000, `a live line of step 3 in:\n${text}`)
    expect(text).toContain("\r\u001B[2K")
    // The terminal signals every process of the group, `bun run` passes it on besides: still one Ctrl-C.
    child.terminal!.write("\u0003")
    await child.exited
    const plain = Bun.stripANSI(text)
    expect(plain).toContain("Ctrl-C again ends at once")
    expect(plain).toContain("(interrupted)")
    expect(plain).toMatch(/bun run cohort train --resume /)
    expect(child.exitCode).toBe(130)
    for (const line of plain.split(/\r?\n|\r/)) if (line.startsWith("train ")) expect(Bun.stringWidth(line)).toBeLessThan(80)
  } finally {
    child.kill("SIGKILL")
    child.terminal?.close()
    await child.exited
  }
}, 120_000)
