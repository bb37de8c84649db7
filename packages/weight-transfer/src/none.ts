// No transfer: for runs whose servers must keep their weights, and for engines that share the trainer's.
import type { WeightTransfer } from "./protocol.ts"

/**
 * A transfer that sends nothing and reports no server.
 *
 * @example
 * const report = await noTransfer().push(3) // { version: 3, bytes: 0, servers: [], ... }
 */
export function noTransfer(): WeightTransfer {
  return {
    async init() {},
    push: async (version) => ({ version, bytes: 0, seconds: 0, pausedSeconds: 0, servers: [] }),
    async close() {},
  }
}
