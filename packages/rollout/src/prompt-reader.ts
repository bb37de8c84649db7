// Reads prompts for a worker one at a time. A prompt that was handed out and cannot be admitted any more always goes back.
import { messageOf } from "@cohort/errors"
import { withDeadline } from "./deadline.ts"
import type { PromptOccurrence, RolloutWorkerOptions } from "./worker-options.ts"

export class PromptReader {
  readonly #options: Pick<RolloutWorkerOptions, "nextPrompt" | "promptTimeoutMs" | "clock" | "onGiveBack" | "log">
  readonly #signal: AbortSignal
  #held: PromptOccurrence | undefined
  #ended = false
  #asked: Promise<unknown> = Promise.resolve()

  constructor(options: RolloutWorkerOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
  }

  /** True once the data has ended and nothing is held. */
  get exhausted(): boolean {
    return this.#ended && this.#held === undefined
  }

  /**
   * The held prompt, or the next one; undefined at the end of the data.
   *
   * @throws CohortError `timeout`; the signal's reason; what the source throws.
   */
  async next(): Promise<PromptOccurrence | undefined> {
    const held = this.#held
    this.#held = undefined
    if (held !== undefined) return held
    const { nextPrompt, promptTimeoutMs, clock } = this.#options
    const asked = Promise.try(() => nextPrompt(this.#signal))
    this.#asked = asked
    const deadline = { clock, timeoutMs: promptTimeoutMs, signal: this.#signal, what: "reading the next prompt" }
    try {
      const prompt = await withDeadline(deadline, () => asked)
      this.#ended = prompt === undefined
      return prompt
    } catch (error) {
      // What comes, or is thrown, after we stopped listening: a prompt was handed out all the same, an error changes nothing.
      asked.then((late) => this.#giveBack(late), () => undefined)
      throw error
    }
  }

  /** Resolves once nothing is being read: a prompt that came too late has gone back by then. */
  async settled(): Promise<void> {
    await Promise.allSettled([this.#asked])
  }

  /** Keeps a prompt that cannot start now. */
  hold(prompt: PromptOccurrence): void {
    this.#held = prompt
  }

  /** Returns the held prompt, which was never admitted. */
  giveBackHeld(): void {
    const held = this.#held
    this.#held = undefined
    this.#giveBack(held)
  }

  #giveBack(prompt: PromptOccurrence | undefined): void {
    if (prompt === undefined) return
    try {
      this.#options.onGiveBack(prompt.occurrence)
    } catch (error) {
      // Nobody awaits this call; the occurrence was never admitted, so no record of it is open.
      this.#options.log(`giving back prompt occurrence ${prompt.occurrence}: ${messageOf(error)}`)
    }
  }
}
