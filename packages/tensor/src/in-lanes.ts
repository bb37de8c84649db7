// Parts of one piece of work, side by side where the runtime can.
import type { TensorRuntime } from "./runtime.ts"

/**
 * What `body` computes for each part: in a lane each where there are several parts and the runtime has lanes, one after the other elsewhere.
 *
 * @example
 * inLanes(runtime, splitRows(batch, runtime.info.lanes), (part) => step(part))
 */
export function inLanes<Part, Result>(runtime: Pick<TensorRuntime, "lanes">, parts: readonly Part[], body: (part: Part) => Result): Result[] {
  return parts.length === 1 || runtime.lanes === undefined ? parts.map(body) : runtime.lanes(parts.map((part) => () => body(part)))
}
