// Steps that may follow one that is seen: a shape that is compiled for it is to hold them as well. One that holds it to the last token costs a second
// micro-batch as soon as a completion is longer.
import type { Packable } from "./tree.ts"

const STEPS = 4

/** Steps of as many groups, drawn with replacement from those of `samples` by a fixed rule; in every second one the shortest completion of each group is as long as its longest. */
export function likelySteps<S extends Packable>(samples: readonly S[]): readonly (readonly S[])[] {
  const groups = [...Map.groupBy(samples, ({ groupId }) => groupId).values()].toSorted((a, b) => (a[0]!.groupId < b[0]!.groupId ? -1 : 1))
  let state = 1
  const draw = (): readonly S[] => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff
    return groups[(state >> 8) % groups.length]!
  }
  return Array.from({ length: STEPS }, (_, step) => groups.flatMap((_, index) => (step % 2 === 0 ? draw() : longer(draw())).map((sample, member) => ({ ...sample, id: `${index}/${member}`, groupId: String(index) }))))
}

function longer<S extends Packable>(members: readonly S[]): readonly S[] {
  const sorted = members.toSorted((a, b) => b.tokenIds.length - a.tokenIds.length)
  return [...sorted.slice(0, -1), sorted[0]!]
}
