// Numbers as people read them.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 })

/** `12,345`. */
export function count(value: number): string {
  return grouped.format(value)
}

/** Four significant digits or so: `0.0123`, `1.234`, `123.4`, `12,345`; `-` for what is no number. */
export function decimal(value: number): string {
  if (!Number.isFinite(value)) return "-"
  const size = Math.abs(value)
  if (size >= 1000) return count(value)
  if (size >= 100) return value.toFixed(1)
  if (size >= 1 || size === 0) return value.toFixed(2)
  return size >= 0.01 ? value.toFixed(3) : value.toPrecision(2)
}

/** A share: `87.5%`. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`
}

/** `0.35 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "-"
  if (seconds < 1) return `${seconds.toFixed(seconds < 0.1 ? 3 : 2)} s`
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  const two = (n: number): string => String(n).padStart(2, "0")
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`
  const minutes = Math.round(whole / 60)
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`
}

/** Decimal units, as disks and networks count: `274 MB`. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"]
  let size = value
  let unit = 0
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000
    unit++
  }
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`
}
