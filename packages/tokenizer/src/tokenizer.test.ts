import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { bpeFolder, charFolder, errorOf, folderOf, parity } from "../test/fixtures.ts"
import { readTokenizerFiles } from "./files.ts"
import { openTokenizer } from "./tokenizer.ts"

const folders = [
  ["char", openTokenizer(charFolder), parity.char],
  ["bpe", openTokenizer(bpeFolder), parity.bpe],
] as const

describe.each(folders)("%s: the ids and texts of the Python library", (_, tokenizer, answers) => {
  test.each(answers.encode.map(([text, ids]) => [JSON.stringify(text).slice(0, 40), text, ids] as const))("encode %s", (_, text, ids) => {
    expect([...tokenizer.encode(text)]).toEqual(ids)
  })

  test("decode, with and without special tokens", () => {
    for (const [ids, all, withoutSpecial] of answers.decode) {
      expect(tokenizer.decode(ids)).toBe(all)
      expect(tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens: true })).toBe(withoutSpecial)
    }
  })

  test("sizes and special ids", () => {
    expect(tokenizer.vocabSize).toBe(answers.size)
    expect(tokenizer.eosTokenIds).toContain(answers.eos)
    expect(tokenizer.padTokenId).toBe(answers.pad)
  })

  test("chats render and encode alike", () => {
    for (const [{ messages, tools, add_generation_prompt: addGenerationPrompt, enable_thinking: thinking }, text, ids] of answers.chats) {
      const options = { addGenerationPrompt, ...(tools && { tools }), ...(thinking !== undefined && { args: { enable_thinking: thinking } }) }
      expect(tokenizer.renderChat(messages, options)).toBe(text)
      expect([...tokenizer.encodePrompt(messages, options)]).toEqual(ids)
    }
  })
})

test("spaces before punctuation stay, also where the config asks for clean-up", () => {
  using folder = folderOf({ "tokenizer.json": readTokenizerFiles(bpeFolder).tokenizer, "tokenizer_config.json": { clean_up_tokenization_spaces: true } })
  const tokenizer = openTokenizer(folder.path)
  expect(tokenizer.decode(tokenizer.encode("so , it is n't ."))).toBe("so , it is n't .")
})

test("byte-level text comes back as it went in", () => {
  const tokenizer = openTokenizer(bpeFolder)
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), (text) => {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text.normalize("NFC"))
    }),
    { seed: 3, numRuns: 200 },
  )
})

describe("the begin token", () => {
  const config = { bos_token: { content: "<s>" }, eos_token: null }
  const withTemplate = (template: string) =>
    folderOf({ "tokenizer.json": parity.bos.json, "tokenizer_config.json": { ...config, chat_template: template } })
  const sun = [{ role: "user", content: "sun" }] as const

  test("encode follows the Python library with and without special tokens", () => {
    using folder = withTemplate("")
    const tokenizer = openTokenizer(folder.path)
    for (const [text, withSpecial, plain] of parity.bos.cases) {
      expect([...tokenizer.encode(text, { addSpecialTokens: true })]).toEqual(withSpecial)
      expect([...tokenizer.encode(text)]).toEqual(plain)
    }
  })

  test("stands once in a rendered chat whose template prints it", () => {
    using folder = withTemplate("{{ bos_token }}{{ messages[0].content }}")
    expect([...openTokenizer(folder.path).encodePrompt(sun)]).toEqual([0, 7])
  })

  test("is not added to a chat whose template leaves it out", () => {
    using folder = withTemplate("{{ messages[0].content }}")
    expect([...openTokenizer(folder.path).encodePrompt(sun)]).toEqual([7])
  })

  test("stands once before plain text, also when the text brings it", () => {
    using folder = withTemplate("")
    expect([...openTokenizer(folder.path).encodePrompt("sun")]).toEqual([0, 7])
    expect([...openTokenizer(folder.path).encodePrompt("<s>sun")]).toEqual([0, 7])
  })
})

describe("variants of the file format", () => {
  test("merges as pairs and as strings give the same ids", () => {
    const json = parity.bos.json as { model: { merges: string[][] } }
    const asStrings = { ...json, model: { ...json.model, merges: json.model.merges.map((pair) => pair.join(" ")) } }
    using pairs = folderOf({ "tokenizer.json": json })
    using strings = folderOf({ "tokenizer.json": asStrings })
    expect(json.model.merges[0]).toBeArray()
    for (const { path } of [pairs, strings]) expect([...openTokenizer(path).encode("sun")]).toEqual([7])
  })

  test.each([
    ["on", parity.ignoreMerges],
    ["off", parity.usesMerges],
  ])("ignore_merges %s", (_, { json, cases }) => {
    using folder = folderOf({ "tokenizer.json": json })
    const tokenizer = openTokenizer(folder.path)
    for (const [text, , ids] of cases) expect([...tokenizer.encode(text)]).toEqual(ids)
  })
})

describe("what cannot be right is refused", () => {
  const json = parity.usesMerges.json

  test("no tokenizer.json, broken JSON, JSON of another shape", () => {
    using none = folderOf({})
    using broken = folderOf({ "tokenizer.json": "{" })
    using list = folderOf({ "tokenizer.json": "[]" })
    using empty = folderOf({ "tokenizer.json": "{}" })
    expect(errorOf(() => openTokenizer(none.path)).hint).toContain("save_pretrained")
    for (const { path } of [broken, list, empty]) expect(errorOf(() => openTokenizer(path)).code).toBe("tokenizer_invalid")
  })

  test("a character without an id and without an unknown token", () => {
    using folder = folderOf({ "tokenizer.json": { ...json, model: { type: "WordLevel", vocab: { x: 0 }, unk_token: "<unk>" } } })
    expect(errorOf(() => openTokenizer(folder.path).encode("q")).message).toContain(`"q" is not in the vocabulary`)
  })

  test("an id outside the vocabulary", () => {
    const error = errorOf(() => openTokenizer(charFolder).decode([5, 100]))
    expect(error.message).toContain("id 100 at position 1 is not in the vocabulary of 100")
    expect(errorOf(() => openTokenizer(charFolder).decode([-1])).message).toContain("id -1")
  })

  test("special tokens that the vocabulary lacks", () => {
    using token = folderOf({ "tokenizer.json": json, "tokenizer_config.json": { eos_token: "</s>" } })
    using id = folderOf({ "tokenizer.json": json, "generation_config.json": { eos_token_id: [1, 50] } })
    expect(errorOf(() => openTokenizer(token.path)).message).toContain(`eos_token "</s>"`)
    expect(errorOf(() => openTokenizer(id.path)).message).toContain("eos_token_id 50")
  })
})

describe("end and pad tokens", () => {
  const json = parity.usesMerges.json

  test("a list of end tokens is read whole", () => {
    expect(openTokenizer(bpeFolder).eosTokenIds).toEqual([2, 0])
  })

  test("a number, none at all, and config.json in place of generation_config.json", () => {
    using number = folderOf({ "tokenizer.json": json, "generation_config.json": { eos_token_id: 3 } })
    using none = folderOf({ "tokenizer.json": json, "config.json": { eos_token_id: null, pad_token_id: -1 } })
    using config = folderOf({ "tokenizer.json": json, "config.json": { eos_token_id: 1, pad_token_id: 4 } })
    expect(openTokenizer(number.path)).toMatchObject({ eosTokenIds: [3], padTokenId: 3 })
    expect(openTokenizer(none.path)).toMatchObject({ eosTokenIds: [], padTokenId: 0 })
    expect(openTokenizer(config.path)).toMatchObject({ eosTokenIds: [1], padTokenId: 4 })
  })
})

test("generated ids parse with their end token, padding and foreign ids left out", () => {
  const tokenizer = openTokenizer(bpeFolder)
  const ids = [...tokenizer.encode('<think>a</think>ok<tool_call>{"name":"add"}</tool_call>'), 2]
  const { message, toolCalls } = tokenizer.parseIds(ids)
  expect(message).toMatchObject({ content: "ok", reasoning: "a" })
  expect(toolCalls.map((call) => call.function.name)).toEqual(["add"])
  expect(tokenizer.parseIds([...tokenizer.encode("hi"), 9999, 2, 2]).message.content).toBe("hi")
})
