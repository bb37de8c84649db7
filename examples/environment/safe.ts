// An environment with state: a safe whose dial the model turns, and which scores whether it was opened.
import { type Environment, methodsAsTools, type PromptRow } from "@cohort/plugin"

class Safe implements Environment {
  #code = ""
  #turns = 0
  #open = false
  readonly tools = methodsAsTools(this, {
    turn: { description: "Turns the dial to a digit.", parameters: { type: "object", properties: { to: { type: "integer" } }, required: ["to"] } },
  })

  reset(row: PromptRow) {
    this.#code = String(row["code"])
    return " The dial has the digits 0 to 9."
  }

  turn({ to }: { readonly to?: unknown }) {
    this.#turns++
    this.#open ||= String(to) === this.#code
    return this.#open ? "It opens." : `Nothing happens: the digit is ${Number(to) < Number(this.#code) ? "higher" : "lower"}.`
  }

  /** Sooner is better. */
  score() {
    return this.#open ? 1 / this.#turns : 0
  }
}

export default () => new Safe()
