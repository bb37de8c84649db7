// Rows that are open, by the room that is left in them: finding the fullest that takes a tree is the inner loop of packing.

export interface Rooms {
  put(row: number, room: number): void
  /** Takes out the row with the least room of at least `tokens` that suits, the last put of those; undefined without one. */
  take(tokens: number, suits: (row: number) => boolean): number | undefined
}

/** @param most largest room, tokens */
export function createRooms(most: number): Rooms {
  const rows = new Map<number, number[]>()
  // One bit a room that has rows, so that empty ones are passed 32 at a time.
  const taken = new Uint32Array((most >> 5) + 1)
  const next = (from: number): number => {
    if (from > most) return -1
    let word = from >> 5
    let bits = taken[word]! & (-1 << (from & 31))
    while (bits === 0 && ++word < taken.length) bits = taken[word]!
    return bits === 0 ? -1 : (word << 5) + 31 - Math.clz32(bits & -bits)
  }
  return {
    put(row, room) {
      const found = rows.get(room)
      if (found === undefined) rows.set(room, [row])
      else found.push(row)
      taken[room >> 5]! |= 1 << (room & 31)
    },
    take(tokens, suits) {
      for (let room = next(tokens); room !== -1; room = next(room + 1)) {
        const found = rows.get(room)!
        const at = found.findLastIndex(suits)
        if (at === -1) continue
        const [row] = found.splice(at, 1)
        if (found.length === 0) taken[room >> 5]! &= ~(1 << (room & 31))
        return row
      }
      return undefined
    },
  }
}
