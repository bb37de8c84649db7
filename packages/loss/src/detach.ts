// Stop-gradient, which tfjs-core lacks.
import { customGrad } from "@tensorflow/tfjs-core"
import type { Tensor } from "@tensorflow/tfjs-core"

/**
 * Runs `compute` with the gradient tape off: its result is a constant to whatever is differentiated, also where a comparison
 * (which has no gradient in tfjs) made it. A custom-gradient op without inputs is never on a path from a variable, and the engine
 * does not tape what runs inside one.
 */
export function withoutGradient<T extends Tensor>(compute: () => T): T {
  return customGrad<T>(() => ({ value: compute(), gradFunc: () => [] }))()
}

/** The same values, through which no gradient flows. */
export const detach = <T extends Tensor>(x: T): T => withoutGradient(() => x.clone())
