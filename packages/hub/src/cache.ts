// The cache as Python lays it out, `models--org--name/{refs/<revision>, blobs/<hash>, snapshots/<commit>/<path>}`, and a client that uses nothing else.
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { mkdir, rename, symlink, writeFile } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { CohortError } from "@cohort/errors"
import type { HubClient, HubRepo } from "./client.ts"
import { codes } from "./hub-error.ts"

/** Folder of a repository. */
export function repoFolder(cacheDir: string, { kind, name }: Pick<HubRepo, "kind" | "name">): string {
  return join(cacheDir, `${kind}s--${name.replaceAll("/", "--")}`)
}

export const snapshotFolder = (folder: string, commit: string): string => join(folder, "snapshots", commit)
export const blobPath = (folder: string, hash: string): string => join(folder, "blobs", hash)

/** The commit that the cache has for a revision, if any. */
export function cachedCommit(folder: string, revision: string): string | undefined {
  const ref = join(folder, "refs", revision)
  const commit = existsSync(ref) ? readFileSync(ref, "utf8").trim() : revision
  return existsSync(snapshotFolder(folder, commit)) ? commit : undefined
}

/** Remembers what a branch or tag meant, for work without a network. */
export async function writeRef(folder: string, revision: string, commit: string): Promise<void> {
  if (revision === commit) return
  const path = join(folder, "refs", revision)
  await mkdir(dirname(path), { recursive: true })
  const partial = `${path}.${crypto.randomUUID()}`
  await writeFile(partial, commit)
  await rename(partial, path)
}

/** Puts a blob into a snapshot under its path. Another process may have done so meanwhile. */
export async function linkBlob(folder: string, commit: string, path: string, hash: string): Promise<void> {
  const pointer = join(snapshotFolder(folder, commit), path)
  await mkdir(dirname(pointer), { recursive: true })
  try {
    await symlink(relative(dirname(pointer), blobPath(folder, hash)), pointer)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  }
}

export function cacheClient(cacheDir: string): HubClient {
  return {
    async open(repo) {
      const folder = repoFolder(cacheDir, repo)
      const commit = cachedCommit(folder, repo.revision)
      if (commit === undefined)
        throw new CohortError(codes[repo.kind], `${repo.kind} ${repo.name} at ${repo.revision} is not in the cache ${cacheDir}, and HF_HUB_OFFLINE is set`, {
          hint: "Load it once with the network, or give the path of a local copy.",
          details: { repo: repo.name, revision: repo.revision, folder },
        })
      const snapshot = snapshotFolder(folder, commit)
      return {
        commit,
        files: readdirSync(snapshot, { recursive: true, encoding: "utf8" }).map((path) => path.replaceAll("\\", "/")),
        async load(paths) {
          const missing = paths.filter((path) => !existsSync(join(snapshot, path)))
          if (missing.length === 0) return snapshot
          throw new CohortError(codes[repo.kind], `${repo.kind} ${repo.name}: ${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not in the cache, and HF_HUB_OFFLINE is set`, { hint: "Load it once with the network." })
        },
      }
    },
  }
}
