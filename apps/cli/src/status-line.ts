// Where the news of a run go: a terminal gets lines above one live line that is redrawn, a pipe gets plain lines.
import type { RunUpdate } from "@cohort/trainer"
import { emptyView, nextView, progressText, type RunView, statusText, updateText } from "./run-view.ts"
import type { Output } from "./shell.ts"
import { fit, type Paint } from "./style.ts"

/** Redrawing more often only flickers. */
const redrawMs = 100
/** How often a pipe hears of a long task. */
const pipeProgressMs = 5_000

export interface StatusLine {
  update(update: RunUpdate): void
  /** Writes a line that stays. */
  print(line: string): void
  /** Takes the live line away; what comes later is written plainly. */
  close(): void
}

const clearLine = "\r\u001B[2K"

/**
 * A status line on an output.
 *
 * @param options.now milliseconds
 * @example
 * const status = createStatusLine({ output: shell.stderr, now: shell.now, paint })
 * status.update({ kind: "phase", phase: "model", message: "Loading the model" })
 * status.close()
 */
export function createStatusLine({ output, now, paint }: { output: Output; now: () => number; paint: Paint }): StatusLine {
  const live = output.isTTY
  let view: RunView = emptyView
  let drawn = false
  let drawnMs = Number.NEGATIVE_INFINITY
  let closed = false
  let told: { readonly message: string; readonly atMs: number; readonly whole: boolean } | undefined

  function erase(): void {
    if (drawn) output.write(clearLine)
    drawn = false
  }

  function draw(): void {
    // The last column stays free: writing there makes some terminals wrap.
    output.write(`${clearLine}${paint("cyan", fit(statusText(view), output.columns - 1))}`)
    drawn = true
    drawnMs = now()
  }

  function print(line: string): void {
    erase()
    output.write(`${line}\n`)
    if (live && !closed && view !== emptyView) draw()
  }

  /** A pipe hears of a long task when it starts, every few seconds, and at its end. */
  function printProgress(update: Extract<RunUpdate, { kind: "progress" }>): void {
    const whole = update.done >= update.total
    const due = told?.message !== update.message || now() - told.atMs >= pipeProgressMs || (whole && !told.whole)
    if (!due) return
    told = { message: update.message, atMs: now(), whole }
    print(progressText(update))
  }

  return {
    update(update) {
      if (closed) return
      view = nextView(view, update)
      const line = updateText(update)
      if (!live) {
        if (update.kind === "progress") printProgress(update)
        else if (line !== undefined) print(line)
        return
      }
      // In a terminal the steps are the live line.
      const stays = line !== undefined && update.kind !== "step" && update.kind !== "phase"
      if (stays) print(update.kind === "warning" ? paint("yellow", line) : line)
      else if (update.kind === "phase" || now() - drawnMs >= redrawMs) draw()
    },
    print,
    close() {
      erase()
      closed = true
    },
  }
}
