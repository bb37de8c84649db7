// Remembers which server saw which prompt prefix, so the completions of one group and the turns of one episode meet a warm cache.

export interface PrefixAffinity {
  /** Index of the server that last saw the longest known prefix of these ids, when that prefix is at least half of them. */
  find(promptIds: Int32Array): number | undefined
  remember(promptIds: Int32Array, server: number): void
}

export interface AffinityOptions {
  /** Tokens between two remembered prefix lengths. */
  readonly blockTokens: number
  /** Prefixes kept; the least recently seen go first. */
  readonly maxEntries: number
}

/**
 * Prefix memory over servers. Keys are 32-bit hashes: a collision only sends a request to a colder server.
 *
 * @example
 * const affinity = prefixAffinity({ blockTokens: 32, maxEntries: 16_384 })
 * affinity.remember(ids, 1); affinity.find(ids) // 1
 */
export function prefixAffinity(options: AffinityOptions): PrefixAffinity {
  const seen = new Map<string, number>()
  return {
    find(promptIds) {
      const keys = prefixKeys(promptIds, options.blockTokens)
      for (const { key, length } of keys.toReversed()) {
        if (length * 2 < promptIds.length) return undefined
        const server = seen.get(key)
        if (server !== undefined) return server
      }
      return undefined
    },
    remember(promptIds, server) {
      for (const { key } of prefixKeys(promptIds, options.blockTokens)) {
        seen.delete(key)
        seen.set(key, server)
      }
      for (const key of seen.keys()) {
        if (seen.size <= options.maxEntries) break
        seen.delete(key)
      }
    },
  }
}

/** Hashes of the prefixes at block ends and of the whole, shortest first (FNV-1a over the ids). */
function prefixKeys(promptIds: Int32Array, blockTokens: number): { key: string; length: number }[] {
  const keys: { key: string; length: number }[] = []
  let hash = 0x811c9dc5
  for (let i = 0; i < promptIds.length; i += 1) {
    hash = Math.imul(hash ^ promptIds[i]!, 0x01000193)
    const length = i + 1
    if (length % blockTokens === 0 || length === promptIds.length) keys.push({ key: `${length}:${hash}`, length })
  }
  return keys
}
