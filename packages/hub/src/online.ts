// The hub over the network: a revision is pinned to its commit, then files are fetched into the cache that Python shares.
import { existsSync } from "node:fs"
import { join } from "node:path"
import { CohortError } from "@cohort/errors"
import { cachedCommit, linkBlob, repoFolder, snapshotFolder, writeRef } from "./cache.ts"
import type { HubClient, HubLoadOptions, HubRepo, HubSnapshot } from "./client.ts"
import { type BlobSource, fetchBlob } from "./fetch-blob.ts"
import { codes, hubError } from "./hub-error.ts"
import type { HubSettings } from "./settings.ts"

const defaultEndpoint = "https://huggingface.co"
const apiTimeoutMs = 30_000

export function onlineClient(settings: HubSettings): HubClient {
  return { open: (repo, signal) => openSnapshot(settings, repo, signal) }
}

/** What every call of the hub's library takes. A deadline would cut long downloads, which watch for silence instead. */
function access({ token, endpoint }: HubSettings, { kind, name }: HubRepo, signal: AbortSignal | undefined, timeoutMs?: number) {
  const bounded = (init?: RequestInit): RequestInit => {
    const signals = [signal, timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)].filter((one) => one !== undefined)
    return signals.length === 0 ? { ...init } : { ...init, signal: AbortSignal.any(signals) }
  }
  return {
    repo: { type: kind, name } as const,
    fetch: Object.assign((input: string | URL | Request, init?: RequestInit) => fetch(input, bounded(init)), { preconnect: fetch.preconnect }),
    ...(endpoint !== undefined && { hubUrl: endpoint }),
    ...(token !== undefined && { accessToken: token }),
  }
}

async function openSnapshot(settings: HubSettings, repo: HubRepo, signal: AbortSignal | undefined): Promise<HubSnapshot> {
  const { datasetInfo, listFiles, modelInfo } = await import("@huggingface/hub")
  const folder = repoFolder(settings.cacheDir, repo)
  const fail = (error: unknown): CohortError => hubError(error, repo, settings.endpoint ?? defaultEndpoint, cachedCommit(folder, repo.revision) !== undefined)
  const api = access(settings, repo, signal, apiTimeoutMs)
  try {
    const wanted = { ...api, name: repo.name, revision: repo.revision, additionalFields: ["sha" as const] }
    const { sha: commit } = repo.kind === "model" ? await modelInfo(wanted) : await datasetInfo(wanted)
    const entries = (await Array.fromAsync(listFiles({ ...api, revision: commit, recursive: true }))).filter(({ type }) => type === "file")
    await writeRef(folder, repo.revision, commit)
    const found = new Map(entries.map((entry) => [entry.path, { path: entry.path, bytes: entry.lfs?.size ?? entry.size, sha256: entry.lfs?.oid, gitHash: entry.oid }]))
    return {
      commit,
      files: [...found.keys()],
      async load(paths, options = {}) {
        try {
          await fetchFiles(settings, repo, commit, paths.map((path) => found.get(path) ?? absent(repo, path)), options)
        } catch (error) {
          throw fail(error)
        }
        return snapshotFolder(folder, commit)
      },
    }
  } catch (error) {
    throw fail(error)
  }
}

function absent(repo: HubRepo, path: string): never {
  throw new CohortError(codes[repo.kind], `${repo.kind} ${repo.name} at ${repo.revision} has no ${path}`)
}

async function fetchFiles(settings: HubSettings, repo: HubRepo, commit: string, files: readonly BlobSource[], { signal, onProgress }: HubLoadOptions): Promise<void> {
  const { downloadFile } = await import("@huggingface/hub")
  const folder = repoFolder(settings.cacheDir, repo)
  const wanted = files.filter(({ path }) => !existsSync(join(snapshotFolder(folder, commit), path)))
  const totalBytes = wanted.reduce((sum, { bytes }) => sum + bytes, 0)
  let before = 0
  for (const file of wanted) {
    const hash = await fetchBlob(folder, file, {
      ...(signal === undefined ? {} : { signal }),
      open: async (stop) => downloadFile({ ...access(settings, repo, stop), path: file.path, revision: commit }),
      onBytes: (bytes) => onProgress?.({ message: `fetching ${repo.name}`, bytes: before + bytes, totalBytes }),
    })
    await linkBlob(folder, commit, file.path, hash)
    before += file.bytes
  }
}
