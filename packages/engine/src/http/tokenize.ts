// POST /tokenize and /detokenize: the tokenizer and the chat template as the server applies them.
import { Hono } from "hono"

import type { Api } from "./api.ts"
import { readBody } from "./body.ts"
import { readChatPrompt } from "./chat.ts"
import { checkIds, checkModel } from "./prompts.ts"

export function tokenizeRoutes(api: Api) {
  const { engine } = api
  return new Hono()
    .post("/tokenize", async (context) => {
      const fields = await readBody(context)
      const model = fields.string("model")
      const withStrings = fields.boolean("return_token_strs") ?? false
      const chat = fields.raw("messages") === undefined ? undefined : readChatPrompt(fields)
      const prompt = chat === undefined ? fields.string("prompt") : undefined
      const addSpecialTokens = fields.boolean("add_special_tokens") ?? true
      if (chat === undefined && fields.raw("prompt") === undefined) fields.missing("prompt")
      fields.check()
      checkModel(engine, model)
      const ids = chat === undefined ? engine.tokenizer.encode(prompt!, { addSpecialTokens }) : engine.tokenizer.encodeChat(chat)
      return context.json({
        count: ids.length,
        max_model_len: engine.contextLength,
        tokens: Array.from(ids),
        token_strs: withStrings ? Array.from(ids, (id) => engine.tokenizer.tokenString(id)) : null,
      })
    })
    .post("/detokenize", async (context) => {
      const fields = await readBody(context)
      const model = fields.string("model")
      const ids = fields.integers("tokens")
      if (fields.raw("tokens") === undefined) fields.missing("tokens")
      fields.check()
      checkModel(engine, model)
      return context.json({ prompt: engine.tokenizer.decode(checkIds(engine, ids!), { skipSpecialTokens: false }) })
    })
}
