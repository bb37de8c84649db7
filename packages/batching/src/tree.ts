// Samples of a group that start alike, laid out so that the common start is forwarded once: one trunk, a branch per sample.
import { inputTokens, type Sample } from "./sample.ts"

/** What packing reads of a sample. */
export type Packable = Pick<Sample, "id" | "groupId" | "tokenIds" | "lossMask">

/** What a tree, or a row of them, takes. */
export interface Extent {
  /** Tokens that are forwarded. */
  readonly tokens: number
  readonly predictions: number
}

/** The row must be as long as either: short completions have more predictions than tokens, since they share the trunk. */
export const neededLength = ({ tokens, predictions }: Extent): number => Math.max(tokens, predictions)

/**
 * One trunk of `shared` tokens and a branch per sample: the tokens behind the trunk but the last, which predicts nothing. The trunk's last token predicts
 * the first token behind it of each sample. A lone sample is a tree without a trunk.
 */
export interface SampleTree<S extends Packable = Sample> extends Extent {
  readonly shared: number
  readonly samples: readonly S[]
}

/** Index of the first token of a sample that is predicted behind a trunk of `shared` tokens: those of the trunk are trained by none, and nothing predicts a first token. */
export const predictedFrom = (shared: number): number => Math.max(1, shared)

/** What one more sample adds to a tree. */
function branchOf(shared: number, sample: Packable): Extent {
  return { tokens: Math.max(0, inputTokens(sample) - shared), predictions: Math.max(0, sample.tokenIds.length - predictedFrom(shared)) }
}

export function treeOf<S extends Packable>(shared: number, samples: readonly S[]): SampleTree<S> {
  const tree = { shared, samples, tokens: shared, predictions: 0 }
  for (const sample of samples) {
    const branch = branchOf(shared, sample)
    tree.tokens += branch.tokens
    tree.predictions += branch.predictions
  }
  return tree
}

/**
 * Tokens of the trunk of `samples`: those all have in common and none trains. 0 when there is nothing to share. A trained token always stays in its
 * sample's branch, since each sample has its own advantage, and so does the last token of each.
 *
 * @example
 * sharedTokens(samplesOf([1, 2, 3, 8], [1, 2, 3, 9])) // 3, where the prompt is 1 2 3
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
  return common
}

/** Tokens before the first trained one, and fewer than all, so that each sample has a prediction behind the trunk. */
function untrainedStart(sample: Packable): number {
  const first = sample.lossMask.indexOf(1)
  return first === -1 ? inputTokens(sample) : first
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

/** Trees of all groups, each cut where it would not fit a row of length `longest`: every part then has a trunk of its own. */
export function cutGroups<S extends Packable>(groups: readonly SharingGroup<S>[], longest: number, mostPerTree: number): SampleTree<S>[] {
  return groups.flatMap((group) => cutGroup(group, longest, mostPerTree))
}

function cutGroup<S extends Packable>({ members, shared }: SharingGroup<S>, longest: number, mostPerTree: number): SampleTree<S>[] {
  if (shared === 0) return members.map((sample) => treeOf(0, [sample]))
  const trees: S[][] = []
  let open: S[] = []
  let tokens = shared
  let predictions = 0
  for (const sample of members) {
    const branch = branchOf(shared, sample)
    if (open.length > 0 && (tokens + branch.tokens > longest || predictions + branch.predictions > longest || open.length >= mostPerTree)) {
      trees.push(open)
      open = []
      tokens = shared
      predictions = 0
    }
    open.push(sample)
    tokens += branch.tokens
    predictions += branch.predictions
  }
  trees.push(open)
  return trees.map((part) => treeOf(part.length === 1 ? 0 : shared, part))
}
