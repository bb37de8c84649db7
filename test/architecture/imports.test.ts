import { expect, test } from "bun:test"
import { importsOf, packageOf, withoutComments } from "./imports.ts"

const byName = (source: string): Record<string, boolean> => Object.fromEntries(importsOf(source).map(({ specifier, typeOnly }) => [specifier, typeOnly]))

test("finds values and types, and tells them apart", () => {
  expect(
    byName(`
import type { A } from "type-list"
import { type B } from "inline-type"
import type C from "type-default"
import { used, type D } from "both"
import "side-effect"
export type { E } from "type-export"
export type * from "type-star"
export * from "star"
const lazy = await import("dynamic")
const old = require("required")
type G = ${"import"}("type-query").G
console.log(used, lazy, old)
`),
  ).toEqual({
    "type-list": true,
    "inline-type": true,
    "type-default": true,
    both: false,
    "side-effect": false,
    "type-export": true,
    "type-star": true,
    star: false,
    dynamic: false,
    required: false,
    "type-query": true,
  })
})

test("is not misled by comments, strings and types named like imports", () => {
  const source = `
// import a from "comment"
/** @example import b from "doc", or import("doc-call") */
const text = 'import c from "string"'
export type Import = { type: string }
export type { Local }
`
  expect(importsOf(source)).toEqual([])
})

test("blanks comments and keeps strings and lines", () => {
  expect(withoutComments(`a("//x") // y\n/* z\n */ b`)).toBe(`a("//x")     \n    \n    b`)
  expect(withoutComments(`const u = "http://host" // Date.now`)).toContain("http://host")
})

test("names the package of a specifier", () => {
  expect(["@a/b/c", "@a/b", "x/y", "x", "./x.ts", "node:fs", "bun:test", "bun"].map(packageOf)).toEqual(["@a/b", "@a/b", "x", "x", undefined, undefined, undefined, undefined])
})
