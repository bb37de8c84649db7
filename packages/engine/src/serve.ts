// The engine on a port of this machine.
import { CohortError, toCohortError } from "@cohort/errors"

import { createEngineApp } from "./http/app.ts"
import type { ApiOptions } from "./http/api.ts"

export interface ServeOptions extends Omit<ApiOptions, "now" | "random"> {
  /** Default 127.0.0.1. The control routes are for the trainer alone: bind elsewhere only inside a private network, with an `apiKey`. */
  readonly host?: string
  /** 0 takes any free port. */
  readonly port: number
  readonly now?: () => number
  readonly random?: () => number
}

export interface EngineServer {
  readonly url: string
  readonly port: number
  /** Stops listening and cuts open connections; the engine itself stays. */
  close(): Promise<void>
}

/**
 * Serves an engine over HTTP. Throws `port_in_use`, naming the port, when it is taken.
 *
 * @example
 * const server = await serveEngine({ engine, port: 0 })
 * await fetch(`${server.url}/health`)
 */
export async function serveEngine(options: ServeOptions): Promise<EngineServer> {
  const { host = "127.0.0.1", port, now = Date.now, random = Math.random, ...rest } = options
  const app = createEngineApp({ ...rest, now, random })
  const server = listen()
  const shownHost = host.includes(":") ? `[${host}]` : host
  return {
    url: `http://${shownHost}:${server.port}`,
    port: server.port!,
    close: () => server.stop(true),
  }

  function listen() {
    try {
      return Bun.serve({
        hostname: host,
        port,
        // A paused or long request is silent for minutes; cutting it would abort the rollout.
        idleTimeout: 0,
        maxRequestBodySize: rest.maxBodyBytes ?? 64 * 2 ** 20,
        fetch(request, bunServer) {
          bunServer.timeout(request, 0)
          return app.fetch(request)
        },
      })
    } catch (cause) {
      const error = toCohortError(cause, "internal", `Cannot listen on ${host}:${port}`)
      if (error.code !== "port_in_use") throw error
      throw new CohortError("port_in_use", `Port ${port} on ${host} is already in use.`, { cause, hint: "Stop what listens there, choose another port, or 0 for any free one.", details: { host, port } })
    }
  }
}
