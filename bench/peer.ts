// A peer program in Python that answers one JSON line per request, kept running so that its start is measured by nobody; and how a figure is printed.

export interface Peer {
  ask<Answer = { readonly tokensPerSecond: number }>(request: object): Promise<Answer>
  [Symbol.asyncDispose](): Promise<void>
}

/** Longest that one answer may take. */
const answerTimeoutMs = 300_000

/** @throws Error with the peer's last words when it ends, or is silent for too long */
export function startPeer(python: string, program: string): Peer {
  const child = Bun.spawn([python, program], { stdin: "pipe", stdout: "pipe", stderr: "pipe" })
  const lines = linesOf(child.stdout)
  const said = new Response(child.stderr).text()
  return {
    async ask<Answer>(request: object) {
      child.stdin.write(`${JSON.stringify(request)}\n`)
      await child.stdin.flush()
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => late.reject(new Error(`${program}: no answer in ${answerTimeoutMs} ms`)), answerTimeoutMs)
      try {
        const { value, done } = await Promise.race([lines.next(), late.promise])
        if (done === true) throw new Error(`${program} ended: ${(await said).slice(-2000)}`)
        return JSON.parse(value) as Answer
      } finally {
        clearTimeout(timer)
      }
    },
    async [Symbol.asyncDispose]() {
      await child.stdin.end()
      child.kill()
      await child.exited
    },
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder()
  let text = ""
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      yield text.slice(0, end)
      text = text.slice(end + 1)
    }
  }
  return undefined
}

/** The answer of a program in `peers` that is asked once. Undefined where COHORT_BENCH_PYTHON names no interpreter: the figure is then printed without its peer. */
export async function askPeer(program: string, request: object): Promise<Record<string, number> | undefined> {
  const python = process.env["COHORT_BENCH_PYTHON"]
  if (python === undefined) return undefined
  await using peer = startPeer(python, new URL(`peers/${program}`, import.meta.url).pathname)
  return await peer.ask<Record<string, number>>(request)
}

/** Prints one figure as a JSON line. */
export function figure(name: string, values: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify({ figure: name, ...values })}\n`)
}
