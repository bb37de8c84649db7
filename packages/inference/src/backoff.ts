// How long to wait before the next try: exponential, capped, with full jitter so that many rollouts do not come back at once.

export interface RetryPolicy {
  /** Tries in all, the first included. */
  readonly attempts: number
  readonly firstDelayMs: number
  readonly maxDelayMs: number
}

export const defaultRetry: RetryPolicy = { attempts: 30, firstDelayMs: 500, maxDelayMs: 30_000 }

/**
 * Delay before try `attempt + 1`, ms: uniform in [half, whole] of `firstDelayMs * 2^(attempt - 1)`, capped at `maxDelayMs`.
 *
 * @param random uniform in [0, 1)
 * @example
 * backoffMs({ attempts: 5, firstDelayMs: 500, maxDelayMs: 30_000 }, 3, () => 0) // 1000
 */
export function backoffMs(policy: RetryPolicy, attempt: number, random: () => number): number {
  const whole = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** Math.min(attempt - 1, 30))
  return whole / 2 + (whole / 2) * random()
}
