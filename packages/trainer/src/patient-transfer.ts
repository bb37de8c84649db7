// A transfer that does not give up on an engine which died and is being started again.
import type { WeightTransfer } from "@cohort/weight-transfer"
import type { Servers } from "./servers.ts"

/** Pushes once more when the push failed and the engine came back meanwhile; the first failure is thrown otherwise. */
export function patientTransfer(transfer: WeightTransfer, servers: Pick<Servers, "watchRevival">): WeightTransfer {
  return {
    init: (source, members) => transfer.init(source, members),
    async push(version, signal) {
      const revived = servers.watchRevival()
      try {
        return await transfer.push(version, signal)
      } catch (error) {
        if (signal?.aborted === true || !(await revived())) throw error
        return transfer.push(version, signal)
      }
    },
    close: () => transfer.close(),
  }
}
