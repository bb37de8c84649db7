// Who shows the policy how to add: someone who knows the digits but often forgets the carry. Imperfect demonstrations leave a policy
// that is wrong in a way which a reward can see and correct.

/**
 * The sum as the pupil writes it: where the ones carry, the carry is dropped with the given probability.
 * @param random uniform in [0, 1); drawn only where there is a carry
 * @example carelessAnswer(37, 58, 1, Math.random) // "85" instead of "95"
 */
export function carelessAnswer(a: number, b: number, forgetsCarry: number, random: () => number): string {
  const carries = (a % 10) + (b % 10) >= 10
  return String(a + b - (carries && random() < forgetsCarry ? 10 : 0))
}
