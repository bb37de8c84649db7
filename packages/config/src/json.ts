// JSON values and the few things done with them everywhere here: tests of shape, deep freezing, rendering.

/** What a config file can hold. */
export type JsonValue = null | boolean | number | string | JsonList | JsonTable
export interface JsonList extends ReadonlyArray<JsonValue> {}
export interface JsonTable {
  readonly [key: string]: JsonValue
}

/** `T` with every level readonly, as {@link deepFreeze} makes it. */
export type DeepReadonly<T> = JsonValue extends T
  ? T
  : T extends readonly unknown[]
  ? { readonly [I in keyof T]: DeepReadonly<T[I]> }
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T

/** Object that is neither a list nor an instance of a class. */
export type PlainObject = Record<string, unknown>

export function isPlainObject(value: unknown): value is PlainObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // Config modules may come from another realm, whose Object.prototype is not ours: its own prototype is null too.
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** True for what JSON can hold: no NaN, infinity, undefined, dates, functions or class instances. */
export function isJsonValue(value: unknown): value is JsonValue {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true
  if (typeof value === "number") return Number.isFinite(value)
  if (Array.isArray(value)) return value.every(isJsonValue)
  return isPlainObject(value) && Object.values(value).every(isJsonValue)
}

/** Names that reach an object's prototype when assigned; never taken as keys. */
export function isUnsafeKey(key: string): boolean {
  return key === "__proto__" || key === "constructor" || key === "prototype"
}

/** A path and a name inside it; names inside free-form tables may need quotes, as in TOML. */
export function joinPath(path: string, name: string): string {
  const bare = /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name)
  return path === "" ? bare : `${path}.${bare}`
}

/** Freezes a value and everything in it, in place. */
export function deepFreeze<T>(value: T): DeepReadonly<T> {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const child of Object.values(value)) deepFreeze(child)
  }
  return value as DeepReadonly<T> // the type says what freezing did
}

/** A value as a message shows it: JSON where it is JSON, cut at `limit` characters. */
export function showValue(value: unknown, limit = 120): string {
  const text = isJsonValue(value) ? JSON.stringify(value) : typeof value === "function" ? "a function" : String(value)
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`
}

/** The value itself where JSON can hold it, else how it prints: error details must be JSON. */
export function toJsonValue(value: unknown): JsonValue {
  return isJsonValue(value) ? value : String(value)
}
