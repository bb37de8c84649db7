// How likely a completion ends with its next token, learned by how many tokens it has made: answers of a task have their lengths.

export interface StopRates {
  /** A token was drawn by a sequence that had made `made` before it. */
  drew(made: number, stopped: boolean): void
  /** Probability that the next token of a sequence with `made` tokens ends it. */
  after(made: number): number
}

/** Draws of all lengths count as this many at each, so that a few do not decide. */
const sharedWeight = 16
/** A weak prior of the whole: one stop in so many tokens. */
const priorTokens = 1000
/** Draws at one length beyond which the older half is forgotten: the policy changes. */
const remembered = 1024

export function createStopRates(): StopRates {
  const drawn: number[] = []
  const stops: number[] = []
  let allDrawn = priorTokens
  let allStops = 1
  return {
    drew(made, stopped) {
      drawn[made] = (drawn[made] ?? 0) + 1
      stops[made] = (stops[made] ?? 0) + Number(stopped)
      allDrawn++
      allStops += Number(stopped)
      if (drawn[made] < remembered) return
      drawn[made] /= 2
      stops[made] /= 2
    },
    after: (made) => ((stops[made] ?? 0) + (sharedWeight * allStops) / allDrawn) / ((drawn[made] ?? 0) + sharedWeight),
  }
}
