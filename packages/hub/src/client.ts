// What the rest of Cohort needs of a hub; replace it to load from elsewhere.

export type RepoKind = "dataset" | "model"

export interface HubRepo {
  readonly kind: RepoKind
  /** `organisation/name` */
  readonly name: string
  /** A branch, a tag or a commit. */
  readonly revision: string
}

export interface HubProgress {
  readonly message: string
  readonly bytes: number
  readonly totalBytes: number
}

export interface HubLoadOptions {
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: HubProgress) => void
}

/** A repository at one commit. */
export interface HubSnapshot {
  readonly commit: string
  /** Paths of all its files; of a client that works offline, of those in the cache. */
  readonly files: readonly string[]
  /**
   * Makes these files local.
   * @returns the folder that holds them under their paths
   * @throws CohortError `dataset_invalid` or `model_invalid`, `disk_full`, `timeout`, `aborted`; what was fetched so far is kept for the next try
   */
  load(paths: readonly string[], options?: HubLoadOptions): Promise<string>
}

export interface HubClient {
  /** @throws CohortError `dataset_invalid` or `model_invalid` when the hub refuses, cannot be reached or has nothing of that name */
  open(repo: HubRepo, signal?: AbortSignal): Promise<HubSnapshot>
}
