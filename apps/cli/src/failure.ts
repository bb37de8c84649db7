// How a failed command reads, and the exit code it ends with.
import { type CohortErrorCode, isCohortError, toCohortError } from "@cohort/errors"
import type { Paint } from "./style.ts"

export const exitCodes = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const

/** What the user must change before it can work: the command line, the config, or what the config names. */
const usageCodes: ReadonlySet<CohortErrorCode> = new Set(["config_invalid", "config_not_found", "plugin_not_found", "plugin_invalid"])

/** 2 for a wrong command line or config, 130 after an interruption, else 1. */
export function exitCodeOf(error: unknown, interrupted = false): number {
  const { code } = toCohortError(error)
  if (interrupted && code === "aborted") return exitCodes.interrupted
  return usageCodes.has(code) ? exitCodes.usage : exitCodes.failed
}

/**
 * Message, causes and hint; with `debug` also the stacks.
 *
 * @example
 * failureText(error, { debug: false, paint }) // "error: Port 8000 on 127.0.0.1 is already in use.\n  Stop what listens there, ...\n"
 */
export function failureText(error: unknown, { debug, paint }: { readonly debug: boolean; readonly paint: Paint }): string {
  const { code, message, hint, cause } = toCohortError(error)
  const lines = [`${paint("red", "error:")} ${message}`]
  for (const text of causeTexts(cause)) if (!lines.some((line) => line.includes(text))) lines.push(`  because: ${text}`)
  if (hint !== undefined) lines.push(`  ${hint}`)
  if (debug) lines.push("", Bun.inspect(error, { colors: false }))
  else if (code === "internal") lines.push("  This looks like a fault in Cohort. Set COHORT_DEBUG=1 to see where it happened.")
  return `${lines.join("\n")}\n`
}

/** Messages of the chain of causes, outermost first; a cycle ends it. */
function causeTexts(cause: unknown): string[] {
  const seen = new Set<unknown>()
  const texts: string[] = []
  for (let next = cause; next instanceof Error && !seen.has(next); next = next.cause) {
    seen.add(next)
    const text = next.message.split("\n")[0]!.trim()
    // System errors say no more than the error above them; ours and the libraries' do.
    if (text !== "" && isCohortError(next)) texts.push(text)
  }
  return texts
}
