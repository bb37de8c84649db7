// A server that answers one recorded exchange, for tests that hold a client to what a real server said.

export interface RecordedExchange {
  readonly request: { readonly method: string; readonly path: string; readonly body?: unknown }
  readonly response: { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: unknown }
}

export interface ReplayServer extends Disposable {
  readonly url: string
  /** Bodies that arrived, by `METHOD /path`, oldest first. */
  readonly received: ReadonlyMap<string, readonly unknown[]>
}

/**
 * Starts a server on a free port that answers each `METHOD /path?query` with its recording, and 404 to all else.
 *
 * @example
 * using replay = replayServer([exchange])
 */
export function replayServer(exchanges: readonly RecordedExchange[]): ReplayServer {
  const received = new Map<string, unknown[]>()
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const key = `${request.method} ${pathname}${search}`
      const text = await request.text()
      received.set(key, [...(received.get(key) ?? []), text === "" ? undefined : JSON.parse(text)])
      const match = exchanges.find((exchange) => `${exchange.request.method} ${exchange.request.path}` === key)
      if (match === undefined) return Response.json({ detail: "Not Found" }, { status: 404 })
      const { status, headers, body } = match.response
      return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers: { ...headers } })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, received, [Symbol.dispose]: () => void server.stop(true) }
}
