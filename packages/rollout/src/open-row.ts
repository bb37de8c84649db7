// A training row while its turns are being joined: arrays that grow by doubling, and a comparison of whole blocks, so that many turns cost
// little more than their own tokens.
import type { TokenRow, TurnRecord } from "./reconcile.ts"

/** Ids compared at once. */
const blockIds = 4096
/** Ids copied one by one. */
const shortCopy = 128

export class OpenRow {
  /** Where the latest answer begins. */
  answerStart = 0
  length = 0
  #ids: Int32Array
  #mask: Uint8Array
  #logProbs: Float32Array
  #versions: Int32Array

  /** @param room tokens that it will probably hold */
  constructor(room: number) {
    this.#ids = new Int32Array(room)
    this.#mask = new Uint8Array(room)
    this.#logProbs = new Float32Array(room)
    this.#versions = new Int32Array(room)
  }

  /** Ids at the start that the row and `prompt` share. */
  commonPrefix(prompt: Int32Array): number {
    const limit = Math.min(this.length, prompt.length)
    const held = bytesOf(this.#ids, limit)
    const given = bytesOf(prompt, limit)
    let at = 0
    while (at < limit) {
      const end = Math.min(limit, at + blockIds)
      if (held.compare(given, at * 4, end * 4, at * 4, end * 4) !== 0) break
      at = end
    }
    while (at < limit && this.#ids[at] === prompt[at]) at++
    return at
  }

  /** Adds `promptIds` from `from` on as context: not trained, log-prob 0, version -1. */
  appendContext(promptIds: Int32Array, from: number): void {
    const added = promptIds.length - from
    if (added <= 0) return
    const end = this.length + added
    this.#grow(end)
    if (from === 0) this.#ids.set(promptIds, this.length)
    // A view costs more than a few numbers.
    else if (added > shortCopy) this.#ids.set(promptIds.subarray(from), this.length)
    else for (let i = 0; i < added; i++) this.#ids[this.length + i] = promptIds[from + i]!
    this.#mask.fill(0, this.length, end)
    this.#logProbs.fill(0, this.length, end)
    this.#versions.fill(-1, this.length, end)
    this.length = end
  }

  /** Adds what a turn generated, trained. */
  appendAnswer({ tokenIds, logProbs, versions }: TurnRecord): void {
    this.answerStart = this.length
    this.#grow(this.length + tokenIds.length)
    this.#ids.set(tokenIds, this.length)
    this.#mask.fill(1, this.length, this.length + tokenIds.length)
    this.#logProbs.set(logProbs, this.length)
    this.#versions.set(versions, this.length)
    this.length += tokenIds.length
  }

  truncate(length: number): void {
    this.length = length
  }

  isTrained(): boolean {
    // From the end, where the answer is.
    return this.#mask.lastIndexOf(1, this.length - 1) >= 0
  }

  /** The row as it is to stay; nothing may be added afterwards. */
  close(): TokenRow {
    const { length } = this
    // One that was made as long as it became is given away as it is.
    if (this.#ids.length === length) return { tokenIds: this.#ids, lossMask: this.#mask, behaviorLogProbs: this.#logProbs, versions: this.#versions }
    return { tokenIds: this.#ids.slice(0, length), lossMask: this.#mask.slice(0, length), behaviorLogProbs: this.#logProbs.slice(0, length), versions: this.#versions.slice(0, length) }
  }

  #grow(length: number): void {
    const { length: held } = this.#ids
    if (length <= held) return
    const room = Math.max(length, 2 * held)
    this.#ids = grown(this.#ids, new Int32Array(room))
    this.#mask = grown(this.#mask, new Uint8Array(room))
    this.#logProbs = grown(this.#logProbs, new Float32Array(room))
    this.#versions = grown(this.#versions, new Int32Array(room))
  }
}

function grown<T extends Int32Array | Uint8Array | Float32Array>(from: T, to: T): T {
  to.set(from)
  return to
}

function bytesOf(ids: Int32Array, count: number): Buffer {
  return Buffer.from(ids.buffer, ids.byteOffset, count * 4)
}
