// Learning rate by step: linear warm-up, then constant, linear to zero, or half a cosine to zero.

export interface ScheduleSettings {
  readonly kind: "constant" | "linear" | "cosine"
  readonly peak: number
  readonly warmupSteps: number
  readonly totalSteps: number
}

/**
 * @param step optimizer steps already taken; 0 for the first
 * @example learningRate({ kind: "linear", peak: 1e-4, warmupSteps: 10, totalSteps: 100 }, 0) // 1e-5
 */
export function learningRate(settings: ScheduleSettings, step: number): number {
  const { kind, peak, warmupSteps, totalSteps } = settings
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps
  if (kind === "constant") return peak
  const progress = Math.min(1, (step - warmupSteps) / Math.max(1, totalSteps - warmupSteps))
  return kind === "linear" ? peak * (1 - progress) : (peak * (1 + Math.cos(Math.PI * progress))) / 2
}
