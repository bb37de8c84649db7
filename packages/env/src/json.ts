// JSON values: what rows, tool arguments and plugin options are made of.
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }
/** A value or a promise of it. */
export type Awaitable<T> = T | Promise<T>
