// Samples of a group that start alike, laid out so that the common start is forwarded once: one trunk, a branch per sample.
import type { Sample } from "./sample.ts"

/** What packing reads of a sample. */
export type Packable = Pick<Sample, "id" | "groupId" | "tokenIds" | "lossMask">

/**
 * One trunk of `shared` tokens and a branch per sample. The trunk ends one token before the samples part: each branch begins with a copy of their
 * last common token, so that position p still predicts token p + 1 of the row and no position has two targets (as TRL's prefix trie does).
 * A lone sample is a tree without a trunk.
 */
export interface SampleTree<S extends Packable = Sample> {
  readonly shared: number
  readonly samples: readonly S[]
  /** Tokens that the layout takes: shared + sum of (length - shared). */
  readonly tokens: number
}

/** Tokens of a tree over `samples`. */
export function treeTokens(shared: number, samples: readonly Packable[]): number {
  return samples.reduce((sum, { tokenIds }) => sum + tokenIds.length - shared, shared)
}

export const treeOf = <S extends Packable>(shared: number, samples: readonly S[]): SampleTree<S> => ({ shared, samples, tokens: treeTokens(shared, samples) })

/**
 * Tokens of the trunk of `samples`: those all have in common and none trains, less the last one, which each branch repeats. 0 when there is nothing to
 * share. A trained token always stays in its sample's branch, since each sample has its own advantage.
 *
 * @example
 * sharedTokens(samplesOf([1, 2, 3, 8], [1, 2, 3, 9])) // 2, where the prompt is 1 2 3
 */
export function sharedTokens(samples: readonly Packable[]): number {
  const first = samples[0]
  if (first === undefined || samples.length < 2) return 0
  let common = Math.min(...samples.map(untrainedStart))
  for (const { tokenIds } of samples.slice(1)) {
    let matched = 0
    while (matched < common && tokenIds[matched] === first.tokenIds[matched]) matched++
    common = matched
  }
  return Math.max(0, common - 1)
}

/** Tokens before the first trained one, and fewer than all, so that a branch is never empty. */
function untrainedStart({ lossMask }: Packable): number {
  const first = lossMask.indexOf(1)
  return first === -1 ? lossMask.length : first
}

/** Samples of one group, longest first, and the tokens of their trunk. */
export interface SharingGroup<S extends Packable> {
  readonly members: readonly S[]
  readonly shared: number
}

/** Groups of samples that are given longest first. */
export function sharingGroups<S extends Packable>(samples: readonly S[]): readonly SharingGroup<S>[] {
  return [...Map.groupBy(samples, ({ groupId }) => groupId).values()].map((members) => ({ members, shared: sharedTokens(members) }))
}

/** Trees of all groups, each cut where it would pass `longest` tokens: every part then has a trunk of its own. */
export function cutGroups<S extends Packable>(groups: readonly SharingGroup<S>[], longest: number, mostPerTree: number): SampleTree<S>[] {
  return groups.flatMap((group) => cutGroup(group, longest, mostPerTree))
}

function cutGroup<S extends Packable>({ members, shared }: SharingGroup<S>, longest: number, mostPerTree: number): SampleTree<S>[] {
  if (shared === 0) return members.map((sample) => treeOf(0, [sample]))
  const trees: S[][] = []
  let open: S[] = []
  let tokens = shared
  for (const sample of members) {
    const branch = sample.tokenIds.length - shared
    if (open.length > 0 && (tokens + branch > longest || open.length >= mostPerTree)) {
      trees.push(open)
      open = []
      tokens = shared
    }
    open.push(sample)
    tokens += branch
  }
  trees.push(open)
  return trees.map((part) => treeOf(part.length === 1 ? 0 : shared, part))
}
