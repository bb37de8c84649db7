// Pausing, resuming and aborting: how a trainer stops generation around a weight update.
import { Hono } from "hono"

import type { Api } from "./api.ts"
import { readLooseBody } from "./body.ts"
import { validationError } from "./fields.ts"

const modes = ["abort", "wait", "keep"] as const

export function controlRoutes(api: Api) {
  const { engine } = api
  return new Hono()
    .post("/pause", async (context) => {
      const asked = context.req.query("mode") ?? "abort"
      const mode = modes.find((one) => one === asked)
      const expected = "'abort', 'wait' or 'keep'"
      if (mode === undefined) throw validationError([{ type: "literal_error", loc: "query.mode", msg: `Input should be ${expected}`, input: asked, ctx: `{'expected': "${expected}"}` }])
      await engine.pause(mode, readFlag(context.req.query("clear_cache"), "clear_cache", true))
      return context.json({ status: "paused" })
    })
    .post("/resume", (context) => {
      engine.resume()
      return context.json({ status: "resumed" })
    })
    .get("/is_paused", (context) => context.json({ is_paused: engine.isPaused }))
    .post("/abort_requests", async (context) => {
      const fields = await readLooseBody(context)
      const ids = fields.strings("request_ids")
      fields.check()
      engine.abort(ids)
      // The number of ids sent, known or not, as vLLM answers.
      return context.json({ status: "aborted", aborted: ids?.length ?? 0 })
    })
    .post("/inference/v1/abort_requests", async (context) => {
      const fields = await readLooseBody(context)
      const ids = fields.strings("request_ids")
      fields.check()
      engine.abort(ids)
      return context.body(null, 200)
    })
}

function readFlag(text: string | undefined, name: string, absent: boolean): boolean {
  if (text === undefined) return absent
  if (["true", "1", "yes", "on", "t", "y"].includes(text.toLowerCase())) return true
  if (["false", "0", "no", "off", "f", "n"].includes(text.toLowerCase())) return false
  throw validationError([{ type: "bool_parsing", loc: `query.${name}`, msg: "Input should be a valid boolean, unable to interpret input", input: text }])
}
