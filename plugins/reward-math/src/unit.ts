// Units after a number: what counts as one, and when two are the same.

const names: Readonly<Record<string, string>> = {
  degree: "°", deg: "°", meter: "m", metre: "m", centimeter: "cm", centimetre: "cm", millimeter: "mm", millimetre: "mm", kilometer: "km", kilometre: "km",
  gram: "g", kilogram: "kg", milligram: "mg", second: "s", sec: "s", minute: "min", hour: "h", hr: "h", foot: "ft", feet: "ft", inch: "in", inche: "in",
  pound: "lb", lbs: "lb", ounce: "oz", liter: "l", litre: "l", dollar: "$", cent: "¢", usd: "$", euro: "€",
}
const symbols = new Set(
  "° °C °F m cm mm km g kg mg s ms min h ft in yd mi lb oz l L ml mL K N J kJ W kW V A Hz Pa kPa mol $ € £ ¢ mph km/h m/s m/s^2 ft/s rad".split(" "),
)

/**
 * The unit that a rest of text is, in one spelling; undefined where it is no unit. Right after the number only known symbols and
 * names count (3x is no quantity); after a space any words do, but no lone letter that is no unit.
 *
 * @example unitOf(" degrees") // "°"
 */
export function unitOf(rest: string): string | undefined {
  const unit = rest.trim()
  if (unit === "" || unit.length > 40 || !/^[\p{L}°$€£¢][\p{L}°$€£¢ ./()'-]*(?:\^\d)?$/u.test(unit) || /^(?:and|or)\b/.test(unit)) return undefined
  const [, base, power = ""] = /^(.*?)(\^\d)?$/su.exec(unit)!
  const known = symbols.has(unit) || symbols.has(base!)
  const name = singular(base!)
  if (known) return unit
  if (names[name] !== undefined) return names[name] + power
  return rest.startsWith(" ") && /^\p{L}{2}/u.test(unit) ? name + power : undefined
}

function singular(unit: string): string {
  const lower = unit.toLowerCase()
  return lower.length > 2 && lower.endsWith("s") && !(lower in names) ? lower.slice(0, -1) : lower
}
