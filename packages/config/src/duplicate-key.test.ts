import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { duplicateJsonKeys, duplicateYamlKeys } from "./duplicate-key.ts"

describe("keys given twice", () => {
  test.each<[string, string[]]>([
    ["a: 1\nb: 2\na: 3", ["a"]],
    ["train:\n  steps: 1\neval:\n  steps: 2\n", []],
    ["train:\n  steps: 1\n  # steps: 3\n  steps: 2\n", ["train.steps"]],
    ["train: {}\nseed: 1\ntrain:\n  steps: 1", ["train"]],
    ["rewards:\n- use: a\n  weight: 1\n- use: b\n  weight: 2\nseed: 1", []],
    ["rewards:\n  - use: a\n    use: b\n", ["rewards.use"]],
    ["a:\n  - b: 1\n    c:\n      d: 1\n  - b: 2\n    c:\n      d: 2\n", []],
    ["note: |\n  a: 1\n  a: 2\nb: 1\n", []],
    ["notes:\n  - >-\n    a: 1\n    a: 2\n  - x\nb: 1", []],
    ['note: "x\n  a: 1\n  a: 2"\nb: 1\nb: 2', ["b"]],
    ["note: it's [fine\nb: 1\nc: {\n  a: 1,\n  d: 2 }\nb: 2", ["b"]],
    ["a: 1 # {\nb: 1\na: 2", ["a"]],
    ['"a.b": 1\na:\n  b: 1\n"a.b": 2', ['"a.b"']],
    ["a:\r\n  b: 1\r\n  b: 2\r\n", ["a.b"]],
  ])("yaml %j", (text, expected) => expect(duplicateYamlKeys(text)).toEqual(expected))

  test.each<[string, string[]]>([
    ['{"a": 1, "a": 2}', ["a"]],
    ['{"a": {"b": 1}, "c": {"b": 2}}', []],
    ['{"a": [{"b": 1}, {"b": 2}], "b": "b"}', []],
    ['{"a": [{"b": 1, "b": 2}]}', ["a.b"]],
    ['{"a": "\\"a\\": 1", "\\u0061": 2}', ["a"]],
    ["{a: 'x', // a: 1\n 'a': 2,}", ["a"]],
    ['{"u": "http://x/y", "v": [1, 2], "u": 1}', ["u"]],
  ])("json %j", (text, expected) => expect(duplicateJsonKeys(text)).toEqual(expected))

  test("none is found where there is none", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        expect(duplicateJsonKeys(JSON.stringify(value))).toEqual([])
        expect(duplicateJsonKeys(JSON.stringify(value, null, 2))).toEqual([])
        expect(duplicateYamlKeys(Bun.YAML.stringify(value, null, 2))).toEqual([])
      }),
      { numRuns: 300, seed: 5 },
    )
  })
})
