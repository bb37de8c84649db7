// Drawing one token from logits with the usual filters, in float64: the reference that tests compare with.

export interface DrawSettings {
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  readonly history: Int32Array
}

export interface Drawn {
  readonly tokenId: number
  /** Under the distribution drawn from. */
  readonly logProb: number
  readonly topTokenIds: readonly number[]
  readonly topLogProbs: readonly number[]
}

/**
 * Penalty, temperature, top-k, top-p, min-p, then a Gumbel draw: the largest of log-prob - log(-log u).
 * Temperature 0 takes the most likely token and reports its log-prob at temperature 1.
 *
 * @param logits one per token; overwritten.
 * @param uniform in (0, 1) for a token id.
 */
export function drawToken(logits: Float64Array, settings: DrawSettings, uniform: (tokenId: number) => number, topCount: number): Drawn {
  for (const id of new Set(settings.history)) {
    const logit = logits[id]!
    logits[id] = logit > 0 ? logit / settings.repetitionPenalty : logit * settings.repetitionPenalty
  }
  const greedy = settings.temperature === 0
  if (!greedy) logits.forEach((logit, id) => (logits[id] = logit / settings.temperature))
  const needsOrder = topCount > 0 || settings.topK > 0 || settings.topP < 1
  const order = needsOrder ? Array.from(logits.keys()).toSorted((a, b) => logits[b]! - logits[a]! || a - b) : []
  if (!greedy) {
    if (settings.topK > 0) for (const id of order.slice(settings.topK)) logits[id] = -Infinity
    if (settings.topP < 1) {
      const probs = logProbsOf(logits)
      let mass = 0
      for (const id of order) {
        if (mass >= settings.topP) logits[id] = -Infinity
        mass += Math.exp(probs[id]!)
      }
    }
    const floor = settings.minP > 0 ? Math.max(...logits) + Math.log(settings.minP) : -Infinity
    logits.forEach((logit, id) => {
      if (logit < floor) logits[id] = -Infinity
    })
  }
  const logProbs = logProbsOf(logits)
  let tokenId = 0
  let best = -Infinity
  logProbs.forEach((logProb, id) => {
    const score = greedy ? logProb : logProb - Math.log(-Math.log(uniform(id)))
    if (score > best) {
      best = score
      tokenId = id
    }
  })
  const top = order.slice(0, topCount)
  return { tokenId, logProb: logProbs[tokenId]!, topTokenIds: top, topLogProbs: top.map((id) => logProbs[id]!) }
}

function logProbsOf(logits: Float64Array): Float64Array {
  const max = logits.reduce((a, b) => Math.max(a, b), -Infinity)
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - max), 0)
  return logits.map((logit) => logit - max - Math.log(sum))
}
