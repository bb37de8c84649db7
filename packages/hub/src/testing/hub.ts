// A hub on loopback with the routes that are used of the real one: a repository's commit, its files, their content in ranges.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export const commit = "0123456789abcdef0123456789abcdef01234567"

export interface TestHub {
  readonly endpoint: string
  /** `GET path` of each request, with its range and token. */
  readonly requests: { readonly path: string; readonly range: string | null; readonly authorization: string | null }[]
  /** Bytes of a file's content after which the connection breaks, once. */
  cutAfter: number | undefined
  /** Instead of the real content. */
  corrupt: boolean
  [Symbol.dispose](): void
}

/** @param repos files by repository, such as `models/org/name` */
export function testHub(repos: Readonly<Record<string, Readonly<Record<string, string | Uint8Array>>>>): TestHub {
  const state: Pick<TestHub, "requests" | "cutAfter" | "corrupt"> = { requests: [], cutAfter: undefined, corrupt: false }
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url)
      const range = request.headers.get("range")
      state.requests.push({ path: pathname, range, authorization: request.headers.get("authorization") })
      const [, kind, name, what] = /^\/api\/(models|datasets)\/([^/]+\/[^/]+)\/(.*)$/.exec(pathname) ?? []
      if (kind !== undefined) {
        const files = repos[`${kind}/${name}`]
        if (files === undefined) return Response.json({ error: "Repository not found" }, { status: 404 })
        if (name === "org/gated") return Response.json({ error: "Access to this repo is restricted" }, { status: 403 })
        if (what!.startsWith("revision/")) return what === "revision/main" || what === `revision/${commit}` ? Response.json({ id: name, sha: commit, lastModified: "2026-01-01T00:00:00.000Z" }) : Response.json({ error: "Invalid rev id" }, { status: 404 })
        return Response.json(Object.entries(files).map(([path, content]) => entryOf(path, bytesOf(content))))
      }
      const [, dataset, repo, path] = /^\/(datasets\/)?([^/]+\/[^/]+)\/resolve\/[^/]+\/(.*)$/.exec(pathname) ?? []
      const content = repos[`${dataset === undefined ? "models" : "datasets"}/${repo}`]?.[path!]
      if (content === undefined) return new Response("Entry not found", { status: 404, headers: { "x-error-code": "EntryNotFound" } })
      return contentOf(state, bytesOf(content), range)
    },
  })
  return Object.assign(state, {
    endpoint: `http://127.0.0.1:${server.port}`,
    [Symbol.dispose]: () => void server.stop(true),
  })
}

const bytesOf = (content: string | Uint8Array): Uint8Array => (typeof content === "string" ? new TextEncoder().encode(content) : content)
const hex = (algorithm: "sha1" | "sha256", ...parts: (string | Uint8Array)[]): string => {
  const hasher = new Bun.CryptoHasher(algorithm)
  for (const part of parts) hasher.update(part)
  return hasher.digest("hex")
}

/** As the hub lists it: large files are kept apart from git, by their SHA-256. */
function entryOf(path: string, content: Uint8Array): object {
  const entry = { type: "file", path, size: content.length, oid: hex("sha1", `blob ${content.length}\0`, content) }
  return path.endsWith(".safetensors") ? { ...entry, lfs: { oid: hex("sha256", content), size: content.length, pointerSize: 130 } } : entry
}

function contentOf(state: Pick<TestHub, "cutAfter" | "corrupt">, content: Uint8Array, range: string | null): Response {
  const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? []
  const end = to === "" ? content.length : Math.min(content.length, Number(to) + 1)
  const part = content.slice(Number(from), end)
  if (state.corrupt) part.fill(120)
  const headers = { "content-range": `bytes ${from}-${end - 1}/${content.length}`, etag: '"e"', "content-length": String(part.length) }
  const status = range === null ? 200 : 206
  const cut = state.cutAfter
  if (cut === undefined || part.length <= cut) return new Response(part, { status, headers })
  state.cutAfter = undefined
  const broken = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(part.slice(0, cut))
      controller.close()
    },
  })
  return new Response(broken, { status, headers })
}

/** A folder that is gone after its scope. */
export function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "cohort-hub-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}
