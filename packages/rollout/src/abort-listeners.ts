// Many waits on one signal through one listener: adding to and taking from a set costs a tenth of adding and removing event listeners.

/** Told once, when the signal aborts. */
export interface AbortListener {
  aborted(reason: unknown): void
}

const listenersOf = new WeakMap<AbortSignal, Set<AbortListener>>()

/** Of a signal that has not aborted yet. */
export function listenToAbort(signal: AbortSignal, listener: AbortListener): void {
  let listeners = listenersOf.get(signal)
  if (listeners === undefined) {
    const all = new Set<AbortListener>()
    listeners = all
    listenersOf.set(signal, all)
    signal.addEventListener(
      "abort",
      () => {
        for (const each of all) each.aborted(signal.reason)
        all.clear()
      },
      { once: true },
    )
  }
  listeners.add(listener)
}

export function unlistenToAbort(signal: AbortSignal, listener: AbortListener): void {
  listenersOf.get(signal)?.delete(listener)
}
