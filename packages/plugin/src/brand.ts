// Identity across copies: two installs of this package can meet in one run, so a symbol says what an object is, not instanceof.

/** Versions of the contract that this host runs. Additions stay in the same version; a removal makes the next one. */
export const supportedApiVersions: readonly number[] = [1]

export const brand = Symbol.for("cohort.plugin")

export type BrandKind = "plugin" | "reward" | "environment" | "tools" | "tracker"

export interface Brand {
  readonly kind: BrandKind
  readonly apiVersion: number
}

export interface Branded {
  readonly [brand]?: Brand
}

/** The object with the mark of what it is; the original is not changed. */
export function withBrand<T extends object>(value: T, kind: BrandKind): T & Branded {
  return { ...value, [brand]: { kind, apiVersion: 1 } }
}

/** The mark of a value made by a `define...` function, of this copy of the package or another; undefined for anything else. */
export function brandOf(value: unknown): Brand | undefined {
  if (typeof value !== "object" || value === null) return undefined
  const found = (value as { readonly [brand]?: unknown })[brand]
  if (typeof found !== "object" || found === null) return undefined
  const { kind, apiVersion } = found as { readonly kind?: unknown; readonly apiVersion?: unknown }
  return isKind(kind) && typeof apiVersion === "number" ? { kind, apiVersion } : undefined
}

function isKind(value: unknown): value is BrandKind {
  return value === "plugin" || value === "reward" || value === "environment" || value === "tools" || value === "tracker"
}
