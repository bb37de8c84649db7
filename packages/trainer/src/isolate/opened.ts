// What rewards and tools hold open, processes of isolates above all, so that one call closes it.
import type { Isolated } from "./plugin.ts"

/** What was opened, closed together: each close is tried, the first problem is told. */
export class Opened implements Isolated {
  readonly #all: Isolated[] = []
  readonly pids = (): readonly number[] => this.#all.flatMap((one) => one.pids())

  add<One extends Isolated>(one: One): One {
    this.#all.push(one)
    return one
  }

  async close(): Promise<void> {
    const closed = await Promise.allSettled(this.#all.splice(0).map((one) => one.close()))
    const failed = closed.find((one) => one.status === "rejected")
    if (failed !== undefined) throw failed.reason
  }
}
