// Tokens that say where they came from: a generated id carries the policy version that made it and what it means, so the trainer at the
// far end can check every version, log-prob and prompt against the token itself.
import type { Message } from "@cohort/env"
import type { EpisodeTokenizer } from "@cohort/rollout"

const firstGenerated = 1_000
const kindsPerVersion = 8

/** What a generated token means to the tokenizer. */
export const tokenKind = { plain: 0, call: 1, malformedCall: 2, badArguments: 3, stop: 7 } as const
export type TokenKind = keyof typeof tokenKind

export function generatedId(version: number, kind: TokenKind): number {
  return firstGenerated + version * kindsPerVersion + tokenKind[kind]
}

/** Version that generated the token; undefined for a token of a prompt. */
export function versionOfId(id: number): number | undefined {
  return id < firstGenerated ? undefined : Math.floor((id - firstGenerated) / kindsPerVersion)
}

/** The log-prob that engines give a token: a function of the id, so that a shifted array shows. */
export function logProbOfId(id: number): number {
  return Math.fround(-0.1 - (id % 13) / 16)
}

export function isKind(id: number, kind: TokenKind): boolean {
  return id >= firstGenerated && (id - firstGenerated) % kindsPerVersion === tokenKind[kind]
}

/** Text of the prompt tokens among `ids`. */
export function promptText(ids: Iterable<number>): string {
  let text = ""
  for (const id of ids) if (id > 0 && id < firstGenerated) text += String.fromCharCode(id)
  return text
}

const textIds = (text: string): number[] => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))

const messageIds = (message: Message): number[] =>
  textIds(`<${message.role}>${message.content}${(message.tool_calls ?? []).map(({ function: { name } }) => `!${name}`).join("")}|`)

export const simulatedTokenizer: EpisodeTokenizer = {
  encodePrompt: (prompt) => Int32Array.from(typeof prompt === "string" ? textIds(prompt) : [...prompt.flatMap(messageIds), ...textIds("<assistant>")]),
  decode: () => "",
  parseAssistant(ids) {
    const text = `${ids.length} tokens`
    const last = ids.at(-2) ?? 0
    if (isKind(last, "malformedCall")) return { message: { role: "assistant", content: text }, text, callErrors: [{ name: "look", error: "no JSON", callsBefore: 0 }] }
    if (!isKind(last, "call") && !isKind(last, "badArguments")) return { message: { role: "assistant", content: text }, text }
    const call = { type: "function", function: { name: "look", arguments: isKind(last, "call") ? { at: ids.length } : {} } } as const
    return { message: { role: "assistant", content: "", tool_calls: [call] }, text }
  },
}
