import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import type { RowSource } from "@cohort/env"
import { errorOf, folderOf, jsonl } from "../test/fixtures.ts"
import { openDataset } from "./dataset.ts"

const all = (source: RowSource) => Array.from({ length: source.size }, (_, i) => source.at(i))
const errorOfFile = async (name: string, content: string | Uint8Array, options = {}) => {
  using folder = folderOf({ [name]: content })
  return await errorOf(() => openDataset({ path: join(folder.path, name), ...options }))
}
const rowsOfFile = async (name: string, content: string | Uint8Array, options = {}) => {
  using folder = folderOf({ [name]: content })
  return all(await openDataset({ path: join(folder.path, name), ...options }))
}

describe("the prompt column", () => {
  test("missing everywhere: names what is there and what to set", async () => {
    const error = await errorOfFile("d.jsonl", jsonl({ problem: "p", solution: "s" }))
    expect(error.code).toBe("dataset_invalid")
    expect(error.message).toBe("d.jsonl line 1: column prompt missing; found: problem, solution")
    expect(error.hint).toContain('promptColumn: "problem"')
  })

  test("a row may come without prompt where an environment supplies it; a column that was named must be there", async () => {
    const rows = [{ level: 1 }, { prompt: "", level: 2 }, { prompt: null }, { prompt: "p" }]
    expect(all(await openDataset({ rows, promptOptional: true })).map(({ prompt }) => prompt)).toEqual([[], [], [], "p"])
    expect((await errorOf(() => openDataset({ rows, promptOptional: true, promptColumn: "question" }))).message).toContain("row 1: column question missing")
    expect((await errorOf(() => openDataset({ rows }))).message).toContain("row 1: column prompt missing")
  })

  test("missing in one row: names the row", async () => {
    expect((await errorOf(() => openDataset({ rows: [{ prompt: "a" }, { prompt: "b" }, { answer: 1 }] }))).message).toContain("row 3: column prompt missing")
  })

  test.each([
    [null, "must be text or a list of messages, found null"],
    [[], "has no messages"],
    [42, "found 42"],
    ["", "is empty"],
    [{ role: "user" }, "must be text or a list of messages"],
  ])("%p is refused", async (prompt, message) => {
    expect((await errorOf(() => openDataset({ rows: [{ prompt }] }))).message).toContain(message)
  })

  test("prompt wins over messages; a named column wins over both; nothing is lost", async () => {
    const row = { prompt: "p", messages: [{ role: "user", content: "m" }], question: "q" }
    expect(all(await openDataset({ rows: [row] }))).toEqual([{ id: "0", ...row }])
    expect(all(await openDataset({ rows: [row], promptColumn: "question" }))).toEqual([{ id: "0", ...row, prompt: "q", original_prompt: "p" }])
    expect((await errorOf(() => openDataset({ rows: [row], promptColumn: "questions" }))).message).toContain("column questions missing")
  })

  test("the names of Object's own members are columns like others, or missing", async () => {
    expect(all(await openDataset({ rows: [{ prompt: "p", constructor: 1, toString: 2 }] }))[0]).toMatchObject({ constructor: 1, toString: 2 })
    expect((await errorOf(() => openDataset({ rows: [{ prompt: "p" }], promptColumn: "constructor" }))).message).toContain("column constructor missing")
    expect((await errorOfFile("d.jsonl", '{"prompt":"p","__proto__":{"x":1}}')).message).toContain("__proto__")
  })
})

describe("messages", () => {
  test("text parts join, argument text is parsed, other fields stay", async () => {
    const prompt = [
      { role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }], name: "Ada" },
      { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: '{"x":1}' } }] },
    ]
    expect(all(await openDataset({ rows: [{ prompt }] }))[0]?.prompt).toEqual([
      { role: "user", content: "ab", name: "Ada" },
      { role: "assistant", content: "", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: { x: 1 } } }] },
    ])
  })

  test.each([
    [["hi"], "row 1, message 1: expected an object with role and content, found \"hi\""],
    [[{ role: "user", content: "a" }, { role: "human", content: "b" }], `message 2: role "human" is not one of`],
    [[{ from: "human", value: "a" }], "has from and value"],
    [[{ role: "user" }], "content must be text, found nothing"],
    [[{ role: "user", content: [{ type: "image_url" }] }], "is no text part"],
    [[{ role: "assistant", content: "", tool_calls: {} }], "tool_calls must be a list"],
    [[{ role: "assistant", content: "", tool_calls: [{ function: { name: "f", arguments: "{" } }] }], "tool arguments must be an object"],
  ])("%j is refused", async (prompt, message) => {
    expect((await errorOf(() => openDataset({ rows: [{ prompt }] }))).message).toContain(message)
  })
})

describe("ids", () => {
  test("a column named id is used, else rows are numbered", async () => {
    expect(all(await openDataset({ rows: [{ id: 7, prompt: "a" }, { id: "x", prompt: "b" }] })).map((row) => row.id)).toEqual(["7", "x"])
    expect(all(await openDataset({ rows: [{ prompt: "a" }, { prompt: "b" }] })).map((row) => row.id)).toEqual(["0", "1"])
    expect(all(await openDataset({ rows: [{ id: 7, prompt: "a" }], idColumn: null }))).toEqual([{ id: "0", original_id: 7, prompt: "a" }])
    expect(all(await openDataset({ rows: [{ key: "k", prompt: "a" }], idColumn: "key" }))).toEqual([{ id: "k", key: "k", prompt: "a" }])
  })

  test("twice the same, missing, or of another kind is refused", async () => {
    expect((await errorOf(() => openDataset({ rows: [{ id: 1, prompt: "a" }, { id: "1", prompt: "b" }] }))).message).toContain('row 2: id "1" is also the id of row 1')
    expect((await errorOf(() => openDataset({ rows: [{ id: 1, prompt: "a" }, { prompt: "b" }] }))).message).toContain("row 2: column id missing")
    expect((await errorOf(() => openDataset({ rows: [{ id: { a: 1 }, prompt: "a" }] }))).message).toContain("must be text or a whole number")
  })
})

describe("the shape of the file", () => {
  test.each([
    ["d.json", '[[{"role":"user","content":"hi"}]]', "d.json row 1: expected an object with columns, found an array"],
    ["d.jsonl", '{"prompt":"a"}\n[{"role":"user","content":"hi"}]', "d.jsonl line 2: expected an object with columns, found an array"],
    ["d.jsonl", '{\n"prompt": "a"\n}', "d.jsonl line 1:"],
    ["d.jsonl", '{"prompt":"a"}\n{"prompt":', "d.jsonl line 2:"],
    ["d.jsonl", '{"prompt":"a"}{"prompt":"b"}', "d.jsonl line 1:"],
    ["d.json", '{"data":[]}', "d.json: expected an array of rows, found an object with data"],
    ["d.json", "3", "d.json: expected an array of rows, found number"],
    ["d.json", "[", "d.json:"],
    ["d.json", "[]", "has no rows"],
    ["d.jsonl", "\n\n", "has no rows"],
    ["d.csv", "prompt\na", "unknown kind of file"],
  ])("%s with %j", async (name, content, message) => {
    const error = await errorOfFile(name, content)
    expect(error.code).toBe("dataset_invalid")
    expect(error.message).toContain(message)
  })

  test("bytes that are no UTF-8 name the line", async () => {
    const content = Buffer.concat([Buffer.from('{"prompt":"a"}\n{"prompt":"'), Uint8Array.of(0xff), Buffer.from('"}')])
    expect((await errorOfFile("d.jsonl", content)).message).toBe("d.jsonl line 2: not UTF-8")
  })
})

test("a byte order mark, CRLF, blank lines and line separators inside strings change nothing", async () => {
  const text = '{"prompt":"a"}\r\n\r\n{"prompt":"b\u2028c"}\r\n\r\n'
  for (const content of [text, `\ufeff${text}`]) expect((await rowsOfFile("d.jsonl", content)).map((row) => row.prompt)).toEqual(["a", "b\u2028c"])
  expect((await rowsOfFile("d.json", '\ufeff[{"prompt":"a"}]')).length).toBe(1)
  // Blank lines count, so that the number is the editor's.
  expect((await errorOfFile("d.jsonl", '{"prompt":"a"}\n\n{}')).message).toContain("line 3")
})

test("a line of 20 MB between short ones, characters on every chunk border, no newline at the end", async () => {
  const long = "😀".repeat(5_000_000)
  const rows = await rowsOfFile("d.jsonl", `{"prompt":"a"}\n{"prompt":"b","x":"${long}"}\n{"prompt":"c"}`)
  expect(rows.map((row) => row.prompt)).toEqual(["a", "b", "c"])
  expect(rows[1]?.x === long).toBeTrue()
})

describe("numbers that a double cannot hold", () => {
  test("whole ones keep their digits as text, also nested", async () => {
    const [row] = await rowsOfFile("d.jsonl", '{"prompt":"a","answer":9007199254740995,"more":[1180591620717411303424,{"n":-9007199254740993}],"ok":9007199254740991,"f":1.5e3}')
    expect(row).toMatchObject({ answer: "9007199254740995", more: ["1180591620717411303424", { n: "-9007199254740993" }], ok: 9_007_199_254_740_991, f: 1500 })
  })

  test("1e400 is refused with its line", async () => {
    expect((await errorOfFile("d.jsonl", '{"prompt":"a"}\n{"prompt":"b","x":1e400}')).message).toContain("d.jsonl line 2: the number 1e400 is beyond the double range")
  })

  test("digits inside text are left alone", async () => {
    expect((await rowsOfFile("d.jsonl", '{"prompt":"9007199254740995","x":0.1234567890123456789}'))[0]).toMatchObject({ prompt: "9007199254740995", x: 0.12345678901234568 })
  })
})

test("rows in memory become JSON", async () => {
  const at = new Date("2026-01-02T03:04:05Z")
  const [row] = all(await openDataset({ rows: [{ prompt: "a", big: 2n ** 60n, small: 5n, at, vector: Float32Array.of(1, 2), nothing: undefined, nan: Number.NaN }] }))
  expect(row).toMatchObject({ big: "1152921504606846976", small: 5, at: at.toISOString(), vector: [1, 2], nothing: null, nan: null })
  expect(() => JSON.stringify(row)).not.toThrow()
  for (const value of [() => 1, Number.POSITIVE_INFINITY, new Uint8Array(2)]) {
    expect((await errorOf(() => openDataset({ rows: [{ prompt: "a", x: { y: value } }] }))).message).toContain("row 1.x.y")
  }
})

test("columns and limit keep what was asked for", async () => {
  const rows = [{ prompt: "a", x: 1, y: 2 }, { prompt: "b", x: 1, y: 2 }, { nothing: true }]
  expect(all(await openDataset({ rows, columns: ["prompt", "x"], limit: 2 }))).toEqual([{ id: "0", prompt: "a", x: 1 }, { id: "1", prompt: "b", x: 1 }])
  expect((await errorOf(() => openDataset({ rows, columns: ["prompt", "z"] }))).message).toContain("row 1: column z missing; found: prompt, x, y")
})

test("environment is a name; null is none", async () => {
  expect(all(await openDataset({ rows: [{ prompt: "a", environment: "e" }, { prompt: "b", environment: null }] })).map((row) => row.environment)).toEqual(["e", undefined])
  expect((await errorOf(() => openDataset({ rows: [{ prompt: "a", environment: 3 }] }))).message).toContain("column environment must name")
})

test("no path, both, a path that is not there, an aborted load", async () => {
  expect((await errorOf(() => openDataset({}))).message).toContain("neither was given")
  expect((await errorOf(() => openDataset({ path: "a", rows: [] }))).message).toContain("both were given")
  expect((await errorOf(() => openDataset({ path: "data/train.jsonl" }))).message).toContain("no such file or folder")
  expect((await errorOfFile("d.jsonl", jsonl({ prompt: "a" }), { signal: AbortSignal.abort() })).code).toBe("aborted")
})
