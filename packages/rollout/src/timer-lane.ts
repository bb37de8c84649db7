// Waits of equal length end in the order in which they began, so one timer serves them all: that of the first.
import type { Clock } from "./protocol.ts"
import { timerOver } from "./timer-over.ts"

/** A wait; the links are the lane's. */
export interface LaneEntry {
  atMs: number
  previous: LaneEntry | undefined
  next: LaneEntry | undefined
  /** Its time has come; it is no longer in the lane. */
  ring(): void
}

const lanesOf = new WeakMap<Clock, Map<number, TimerLane>>()

/** The lane of all waits of `lengthMs` on one clock. */
export function laneOf(clock: Clock, lengthMs: number): TimerLane {
  let lanes = lanesOf.get(clock)
  if (lanes === undefined) {
    lanes = new Map()
    lanesOf.set(clock, lanes)
  }
  let lane = lanes.get(lengthMs)
  if (lane === undefined) {
    const all = lanes
    const made = new TimerLane(clock, lengthMs, () => all.get(lengthMs) === made && all.delete(lengthMs))
    lane = made
    lanes.set(lengthMs, made)
  }
  return lane
}

/** A queue of waits with one timer, which is set while anybody waits. */
export class TimerLane {
  readonly #clock: Clock
  readonly #lengthMs: number
  readonly #onEmpty: () => void
  #first: LaneEntry | undefined
  #last: LaneEntry | undefined
  #timer: AbortController | undefined

  constructor(clock: Clock, lengthMs: number, onEmpty: () => void) {
    this.#clock = clock
    this.#lengthMs = lengthMs
    this.#onEmpty = onEmpty
  }

  add(entry: LaneEntry): void {
    entry.atMs = this.#clock.now() + this.#lengthMs
    entry.previous = this.#last
    if (this.#last === undefined) this.#first = entry
    else this.#last.next = entry
    this.#last = entry
    if (this.#timer === undefined) this.#arm(entry)
  }

  /** Of an entry that has not rung; one that has rung is left alone. */
  remove(entry: LaneEntry): void {
    if (entry !== this.#first && entry.previous === undefined) return
    this.#unlink(entry)
    if (this.#first !== undefined) return
    this.#timer?.abort(timerOver)
    this.#timer = undefined
    this.#onEmpty()
  }

  #unlink(entry: LaneEntry): void {
    const { previous, next } = entry
    if (previous === undefined) this.#first = next
    else previous.next = next
    if (next === undefined) this.#last = previous
    else next.previous = previous
    entry.previous = undefined
    entry.next = undefined
  }

  #arm(first: LaneEntry): void {
    const timer = new AbortController()
    this.#timer = timer
    this.#clock.sleep(Math.max(0, first.atMs - this.#clock.now()), timer.signal).then(
      () => this.#ringDue(timer),
      // Aborted above once nobody waits any more; that is its normal end.
      () => undefined,
    )
  }

  #ringDue(timer: AbortController): void {
    if (this.#timer !== timer) return
    const nowMs = this.#clock.now()
    for (let first = this.#first; first !== undefined && first.atMs <= nowMs; first = this.#first) {
      this.#unlink(first)
      first.ring()
    }
    this.#timer = undefined
    if (this.#first === undefined) this.#onEmpty()
    else this.#arm(this.#first)
  }
}
