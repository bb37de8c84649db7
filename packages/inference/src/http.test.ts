import { afterEach, expect, test } from "bun:test"
import { createServer, type Server, type Socket } from "node:net"
import fc from "fast-check"
import { CohortError } from "@cohort/errors"
import { backoffMs, defaultRetry } from "./backoff.ts"
import { systemClock } from "./clock.ts"
import { httpClient, type Call } from "./http.ts"

const servers: Server[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise<void>((resolve) => server.close(() => resolve()))))
})

/** A TCP server that treats its n-th connection's first bytes as told. */
async function tcp(onRequest: (socket: Socket, count: number) => void): Promise<{ url: string; count: () => number }> {
  let count = 0
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy())
    socket.on("data", () => onRequest(socket, (count += 1)))
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  return { url: `http://127.0.0.1:${address.port}`, count: () => count }
}

const answer = (socket: Socket, status: number, body: string) =>
  socket.end(`HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`)

const client = (url: string, apiKey?: string) => httpClient({ name: "a", url, apiKey, fetch, clock: systemClock, random: () => 0.5 })
const call = (over: Partial<Call> = {}): Call => ({ method: "POST", path: "/x", body: {}, timeoutMs: 5_000, retry: { attempts: 3, firstDelayMs: 1, maxDelayMs: 2 }, ...over })
const failure = async (promise: Promise<unknown>): Promise<CohortError> => {
  const error = await promise.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(CohortError)
  return error as CohortError
}

test("a connection reset before any byte is tried once more for free, even when one try is allowed", async () => {
  const { url, count } = await tcp((socket, n) => (n === 1 ? socket.resetAndDestroy() : answer(socket, 200, '{"ok":1}')))
  expect(await client(url)(call({ retry: { attempts: 1, firstDelayMs: 1, maxDelayMs: 1 } }))).toEqual({ ok: 1 })
  expect(count()).toBe(2)
})

test("a reset after the answer began is no stale connection: it costs a try", async () => {
  const { url, count } = await tcp((socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
    setTimeout(() => socket.destroy(), 5)
  })
  const error = await failure(client(url)(call({ retry: { attempts: 1, firstDelayMs: 1, maxDelayMs: 1 } })))
  expect(error.code).toBe("inference_unreachable")
  expect(count()).toBe(1)
})

test.each([500, 503, 429])("%d is tried again and then succeeds", async (status) => {
  const { url, count } = await tcp((socket, n) => answer(socket, n < 3 ? status : 200, "{}"))
  expect(await client(url)(call())).toEqual({})
  expect(count()).toBe(3)
})

test.each([400, 401, 404, 405, 422, 501])("%d is refused at once", async (status) => {
  const { url, count } = await tcp((socket) => answer(socket, status, '{"detail":"no such thing"}'))
  const error = await failure(client(url)(call()))
  expect(error.code).toBe("inference_rejected")
  expect(error.message).toBe(`POST /x on a: ${status} no such thing`)
  expect(count()).toBe(1)
})

test.each([
  ['{"error":{"message":"words"}}', "words"],
  ['{"error":"words"}', "words"],
  ['{"message":"words","object":"error"}', "words"],
  ["plain words", "plain words"],
  ["", "(empty answer)"],
])("the server's words are found in %s", async (body, words) => {
  const { url } = await tcp((socket) => answer(socket, 400, body))
  expect((await failure(client(url)(call()))).message).toBe(`POST /x on a: 400 ${words}`)
})

test("nobody listening is inference_unreachable after the tries", async () => {
  const { url } = await tcp(() => undefined)
  await new Promise<void>((resolve) => servers.splice(0)[0]!.close(() => resolve()))
  const error = await failure(client(url)(call()))
  expect(error.code).toBe("inference_unreachable")
  expect(error.message).toContain(url)
})

test("tries stop at the deadline with the last failure", async () => {
  const { url } = await tcp((socket) => answer(socket, 503, '{"error":"busy"}'))
  const error = await failure(client(url)(call({ timeoutMs: 60, retry: { attempts: 1000, firstDelayMs: 20, maxDelayMs: 20 } })))
  expect(error.code).toBe("inference_failed")
  expect(error.message).toContain("busy")
})

test("a silent server is a timeout that names call and limit", async () => {
  const { url } = await tcp(() => undefined)
  const error = await failure(client(url)(call({ timeoutMs: 60 })))
  expect(error.code).toBe("timeout")
  expect(error.message).toBe("POST /x on a: no answer within 0.06 s")
})

test("time that the server stands paused does not count", async () => {
  const { url } = await tcp((socket) => setTimeout(() => answer(socket, 200, "{}"), 150))
  const start = performance.now()
  // Paused from the start until 120 ms later.
  const pausedMs = () => Math.min(performance.now() - start, 120)
  expect(await client(url)(call({ timeoutMs: 80, pausedMs }))).toEqual({})
})

test("abort ends the call at once and closes the connection", async () => {
  const closed = Promise.withResolvers<void>()
  const { url } = await tcp((socket) => socket.on("close", () => closed.resolve()))
  const controller = new AbortController()
  setTimeout(() => controller.abort(new Error("run stopped")), 30)
  const error = await failure(client(url)(call({ signal: controller.signal })))
  expect(error.code).toBe("aborted")
  expect(error.message).toContain("run stopped")
  await closed.promise
})

test("abort during the wait between tries ends the call", async () => {
  const { url } = await tcp((socket) => answer(socket, 500, "{}"))
  const controller = new AbortController()
  setTimeout(() => controller.abort(), 30)
  const error = await failure(client(url)(call({ signal: controller.signal, retry: { attempts: 5, firstDelayMs: 60_000, maxDelayMs: 60_000 } })))
  expect(error.code).toBe("aborted")
})

test("the key goes into the authorization header", async () => {
  let seen = ""
  using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => ((seen = request.headers.get("authorization") ?? ""), Response.json({})) })
  await client(`http://127.0.0.1:${server.port}`, "k")(call())
  expect(seen).toBe("Bearer k")
})

test("waits grow, stay in bounds and never pass the cap", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempt, random) => {
      const wait = backoffMs(defaultRetry, attempt, () => random)
      const whole = Math.min(defaultRetry.maxDelayMs, defaultRetry.firstDelayMs * 2 ** (attempt - 1))
      expect(wait).toBeGreaterThanOrEqual(whole / 2)
      expect(wait).toBeLessThanOrEqual(whole)
    }),
    { seed: 1, numRuns: 50 },
  )
})
