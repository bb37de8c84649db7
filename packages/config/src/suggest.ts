// What the writer of an unknown key may have meant: the same name written otherwise or elsewhere, a near miss, a name of another trainer.
import { foreignNames } from "./foreign-name.ts"
import { keyNodes, sectionNodes } from "./tree.ts"

/** Candidates, best first, and what to know about them. */
export interface Suggestion {
  readonly paths: readonly string[]
  readonly note?: string
}

/** A name without case, underscores and dashes. */
export function plainName(name: string): string {
  return name.replace(/[-_\s]/g, "").toLowerCase()
}

const lastPart = (path: string): string => path.slice(path.lastIndexOf(".") + 1)
const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf(".")))

/**
 * Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours, each counted once.
 *
 * @example
 * editDistance("leraning", "learning") // 1
 */
export function editDistance(a: string, b: string): number {
  let before: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(row[j - 1]! + 1, previous[j]! + 1, previous[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, before[j - 2]! + 1)
      row.push(cost)
    }
    before = previous
    previous = row
  }
  return previous[b.length]!
}

/** Misspellings allowed in a name: one in four letters, at most three. */
const allowance = (name: string): number => Math.min(3, Math.floor(name.length / 4))

function near(name: string, candidates: readonly string[], limit = allowance(name)): string[] {
  return candidates
    .map((path) => ({ path, distance: editDistance(name, plainName(lastPart(path))) }))
    .filter(({ distance }) => distance <= limit)
    .toSorted((a, b) => a.distance - b.distance)
    .map(({ path }) => path)
}

const keyPaths = keyNodes.map((node) => node.path)
const sectionPaths = sectionNodes.map((node) => node.path)

/** Section that a name stands for, if it is close to one. */
export function suggestSection(path: string): string | undefined {
  const name = plainName(lastPart(path))
  return sectionPaths.find((section) => plainName(section) === name && section !== path) ?? near(name, sectionPaths)[0]
}

/**
 * What an unknown dotted path may have meant: at most three known paths.
 *
 * @example
 * suggest("train.leraning_rate") // { paths: ["train.learningRate"] }
 */
export function suggest(path: string): Suggestion {
  const name = plainName(lastPart(path))
  const parent = plainName(parentOf(path))
  const inSection = (candidate: string): boolean => plainName(parentOf(candidate)) === parent
  const homeFirst = (paths: readonly string[]): string[] => [...paths.filter(inSection), ...paths.filter((p) => !inSection(p))]

  const same = keyPaths.filter((candidate) => plainName(lastPart(candidate)) === name)
  const sameHere = same.filter(inSection)
  if (sameHere.length > 0) return { paths: sameHere }
  // A whole path written as one name: train_learning_rate.
  const flat = keyPaths.filter((candidate) => plainName(candidate.replaceAll(".", "")) === plainName(path.replaceAll(".", "")))
  if (flat.length > 0) return { paths: flat }
  const foreign = foreignNames.get(name)
  if (foreign !== undefined)
    return { paths: foreign.path === undefined ? [] : [foreign.path], ...(foreign.note === undefined ? {} : { note: foreign.note }) }
  const here = keyPaths.filter(inSection)
  // The name stands elsewhere; one slip away from a key of its own section it may be either.
  if (same.length > 0) return { paths: [...near(name, here, 1).slice(0, 1), ...homeFirst(same)].slice(0, 3) }
  // Among the few keys of its own section one slip is allowed in short names too.
  const closeHere = near(name, here, name.length < 3 ? 0 : Math.max(1, allowance(name)))
  if (closeHere.length > 0) return { paths: closeHere.slice(0, 1) }
  return { paths: near(name, keyPaths).slice(0, 3) }
}
