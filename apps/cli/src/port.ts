// Whether a port is free, asked before the long work of loading a model.
import { CohortError, toCohortError } from "@cohort/errors"

/**
 * Listens for a moment.
 *
 * @throws CohortError `port_in_use` naming the port
 */
export function checkPortFree(hostname: string, port: number): void {
  try {
    Bun.listen({ hostname, port, socket: { data() {} } }).stop(true)
  } catch (cause) {
    const error = toCohortError(cause, "internal", `cannot listen on ${hostname}:${port}`)
    if (error.code !== "port_in_use") throw error
    throw new CohortError("port_in_use", `Port ${port} on ${hostname} is already in use.`, { cause, hint: "Stop what listens there, or choose another port with --port, 0 for any free one." })
  }
}
