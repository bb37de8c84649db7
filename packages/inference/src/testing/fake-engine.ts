// The fake server's engine: requests that make tokens one by one and obey pause, resume and weight loads as vLLM does.
import { fakeToken } from "./fake-tokens.ts"

export interface EngineOptions {
  readonly vocabSize: number
  readonly maxModelLength: number
  /** Time per token, ms; 0 makes a whole answer at once. */
  readonly tokenMs: number
  /** Ends a completion, like a model's EOS. */
  readonly stopTokenId: number | undefined
  /** Token ids of child `index`; the stop token is not added. Absent: hashed tokens. */
  readonly answer: ((query: { promptIds: readonly number[]; index: number; version: string; seed: number }) => readonly number[]) | undefined
}

export interface EngineRequest {
  readonly promptIds: readonly number[]
  readonly n: number
  readonly maxTokens: number
  readonly seed: number
  readonly stopTokenIds: readonly number[]
  readonly signal: AbortSignal
}

export interface EngineChoice {
  readonly tokenIds: number[]
  readonly logProbs: number[]
  readonly versions: { version: string; start: number; end: number }[]
  finishReason: "stop" | "length" | "abort" | undefined
}

/** A tiny engine with vLLM's pause semantics. */
export class FakeEngine {
  paused = false
  draining = false
  running = 0
  waiting = 0
  version = "default"
  folder: string | undefined
  /** A failed load came last: the next request kills the worker. */
  poisoned = false
  readonly #options: EngineOptions
  #aborts = 0
  #drawn = 0
  #changed = Promise.withResolvers<void>()

  constructor(options: EngineOptions) {
    this.#options = options
  }

  /** Seed of a request that gives none: foretellable, and another one each time. */
  drawSeed(): number {
    this.#drawn += 1_000
    return this.#drawn
  }

  async pause(mode: string): Promise<void> {
    if (mode === "abort") this.#aborts += 1
    this.draining = mode === "wait"
    this.paused = mode !== "wait"
    this.#notify()
    if (mode !== "keep") while (this.running > 0) await this.#changed.promise
    this.paused = true
    this.draining = false
  }

  resume(): void {
    this.paused = false
    this.draining = false
    this.#notify()
  }

  /** Runs one request to its end. Resolves undefined when the client went away. */
  async run(request: EngineRequest): Promise<EngineChoice[] | undefined> {
    this.waiting += 1
    while ((this.paused || this.draining) && !request.signal.aborted) await this.#next(request.signal)
    this.waiting -= 1
    if (request.signal.aborted) return undefined
    this.running += 1
    const aborts = this.#aborts
    const choices = Array.from({ length: request.n }, (): EngineChoice => ({ tokenIds: [], logProbs: [], versions: [], finishReason: undefined }))
    try {
      for (let position = 0; choices.some((choice) => choice.finishReason === undefined); position += 1) {
        if (this.#options.tokenMs > 0) await Bun.sleep(this.#options.tokenMs)
        while (this.paused && aborts === this.#aborts && !request.signal.aborted) await this.#next(request.signal)
        if (request.signal.aborted) return undefined
        for (const [index, choice] of choices.entries()) {
          if (choice.finishReason !== undefined) continue
          if (aborts !== this.#aborts) choice.finishReason = "abort"
          else this.#step(request, choice, index, position)
        }
      }
      return choices
    } finally {
      this.running -= 1
      this.#notify()
    }
  }

  #step(request: EngineRequest, choice: EngineChoice, index: number, position: number): void {
    const { answer, vocabSize, maxModelLength, stopTokenId } = this.#options
    const seed = request.seed + index
    const scripted = answer?.({ promptIds: request.promptIds, index, version: this.version, seed })
    const token = fakeToken(request.promptIds, seed, position, this.version, vocabSize)
    const id = scripted === undefined ? token.id : scripted[position]
    if (id === undefined) {
      choice.finishReason = "stop"
      return
    }
    choice.tokenIds.push(id)
    choice.logProbs.push(token.logProb)
    const span = choice.versions.at(-1)
    if (span?.version === this.version) span.end = position + 1
    else choice.versions.push({ version: this.version, start: position, end: position + 1 })
    if (id === stopTokenId || request.stopTokenIds.includes(id)) choice.finishReason = "stop"
    else if (position + 1 >= request.maxTokens || request.promptIds.length + position + 1 >= maxModelLength) choice.finishReason = "length"
  }

  #notify(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }

  async #next(signal: AbortSignal): Promise<void> {
    const gone = Promise.withResolvers<void>()
    const leave = () => gone.resolve()
    signal.addEventListener("abort", leave, { once: true })
    await Promise.race([this.#changed.promise, gone.promise])
    signal.removeEventListener("abort", leave)
  }
}
