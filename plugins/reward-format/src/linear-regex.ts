// A regular expression matcher whose time is the text's length times the pattern's size, whatever the text: no backtracking.
import { CohortError } from "@cohort/plugin"
import { type Flags, type Node, parsePattern } from "./syntax.ts"

type Assertion = Extract<Node, { kind: "assert" }>["at"]
type State =
  | { readonly kind: "char"; readonly test: (char: string) => boolean; readonly next: number }
  | { readonly kind: "assert"; readonly at: Assertion; readonly next: number }
  | { readonly kind: "split"; readonly next: number[] }
  | { readonly kind: "accept" }

/** Patterns past this are slow even in linear time. */
const mostStates = 5_000

/**
 * Compiles a pattern to "does it match anywhere in the text". Thompson's construction, simulated state set by state set
 * (R. Cox, "Regular Expression Matching Can Be Simple And Fast", 2007). Characters are code points, as with the flag `u`.
 *
 * @throws CohortError `config_invalid` for what is no pattern, or has no linear form.
 * @example linearRegex("^(a+)+$", { ignoreCase: false, multiline: false, dotAll: false })("aaa") // true
 */
export function linearRegex(pattern: string, flags: Flags): (text: string) => boolean {
  const states: State[] = [{ kind: "accept" }]
  const add = (state: State): number => {
    if (states.length >= mostStates)
      throw new CohortError("config_invalid", `the pattern ${JSON.stringify(pattern)} is refused: it needs more than ${mostStates} states`, { hint: "Lower the numbers in {m,n}." })
    return states.push(state) - 1
  }
  const start = build(parsePattern(pattern, flags), 0, add)
  return (text) => matches(states, start, Array.from(text), flags)
}

/** Adds the states of a node that go on to `next`; returns the first. */
function build(node: Node, next: number, add: (state: State) => number): number {
  switch (node.kind) {
    case "char":
      return add({ kind: "char", test: node.test, next })
    case "assert":
      return add({ kind: "assert", at: node.at, next })
    case "sequence":
      return node.nodes.reduceRight((after, part) => build(part, after, add), next)
    case "choice":
      return add({ kind: "split", next: node.nodes.map((part) => build(part, next, add)) })
    case "repeat": {
      let first = next
      if (node.most === Number.POSITIVE_INFINITY) {
        const loop: number[] = [next]
        first = add({ kind: "split", next: loop })
        loop.push(build(node.node, first, add))
      } else for (let count = node.least; count < node.most; count++) first = add({ kind: "split", next: [next, build(node.node, first, add)] })
      for (let count = 0; count < node.least; count++) first = build(node.node, first, add)
      return first
    }
  }
}

function matches(states: readonly State[], start: number, chars: readonly string[], flags: Flags): boolean {
  // One mark per state says at which position it was entered last, so that no state is entered twice at one position.
  const enteredAt = new Int32Array(states.length).fill(-1)
  let current: number[] = []
  for (let position = 0; position <= chars.length; position++) {
    const holds = (at: Assertion) => assertionHolds(at, chars, position, flags)
    // A match may start anywhere.
    if (enter(states, start, current, enteredAt, position, holds)) return true
    if (position === chars.length) return false
    const following: number[] = []
    for (const index of current) {
      const state = states[index]!
      if (state.kind !== "char" || !state.test(chars[position]!)) continue
      const holdsNext = (at: Assertion) => assertionHolds(at, chars, position + 1, flags)
      if (enter(states, state.next, following, enteredAt, position + 1, holdsNext)) return true
    }
    current = following
  }
  return false
}

/** Follows splits and assertions from a state; collects the states that wait for a character. True where it accepts. */
function enter(states: readonly State[], from: number, waiting: number[], enteredAt: Int32Array, position: number, holds: (at: Assertion) => boolean): boolean {
  const open = [from]
  for (let index = open.pop(); index !== undefined; index = open.pop()) {
    if (enteredAt[index] === position) continue
    enteredAt[index] = position
    const state = states[index]!
    if (state.kind === "accept") return true
    if (state.kind === "char") waiting.push(index)
    else if (state.kind === "split") open.push(...state.next)
    else if (holds(state.at)) open.push(state.next)
  }
  return false
}

function assertionHolds(at: Assertion, chars: readonly string[], position: number, { multiline }: Flags): boolean {
  const [before, after] = [chars[position - 1], chars[position]]
  if (at === "start") return before === undefined || (multiline && isLineEnd(before))
  if (at === "end") return after === undefined || (multiline && isLineEnd(after))
  return (isWord(before) !== isWord(after)) === (at === "boundary")
}

function isLineEnd(char: string): boolean {
  return char === "\n" || char === "\r" || char === "\u2028" || char === "\u2029"
}

function isWord(char: string | undefined): boolean {
  return char !== undefined && /^\w$/.test(char)
}
