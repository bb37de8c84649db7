// A row of numbers as one line of block characters.

const blocks = "▁▂▃▄▅▆▇█"

/**
 * A series in at most `width` characters (each the mean of a stretch where it is longer), between its lowest and highest value. A flat series is drawn low; what is
 * not finite is a gap.
 *
 * @example
 * sparkline([0, 0.5, 1], 3) // "▁▅█"
 */
export function sparkline(values: readonly number[], width: number): string {
  const points = shrink(values, width)
  const finite = points.filter(Number.isFinite)
  if (finite.length === 0) return ""
  const low = Math.min(...finite)
  const range = Math.max(...finite) - low
  return points
    .map((value) => {
      if (!Number.isFinite(value)) return " "
      const level = range === 0 ? 0 : Math.round(((value - low) / range) * (blocks.length - 1))
      return blocks[level]
    })
    .join("")
}

/** At most `width` means of equal stretches of the series; those that hold no finite value are NaN. */
function shrink(values: readonly number[], width: number): readonly number[] {
  if (values.length <= width) return values
  return Array.from({ length: width }, (_, i) => {
    const part = values.slice(Math.floor((i * values.length) / width), Math.floor(((i + 1) * values.length) / width)).filter(Number.isFinite)
    return part.length === 0 ? Number.NaN : part.reduce((sum, value) => sum + value, 0) / part.length
  })
}
