// New weights by files, their label, and the answers that say that weights come no other way.
import { Hono } from "hono"
import { messageOf } from "@cohort/errors"

import type { Api } from "./api.ts"
import { readLooseBody } from "./body.ts"
import { malformed, workerFailed } from "./errors.ts"

const notConfigured = "Weight transfer not configured. Please set weight_transfer_config to enable weight transfer."

export function weightsRoutes(api: Api) {
  const { engine } = api
  return new Hono()
    .post("/collective_rpc", async (context) => {
      const fields = await readLooseBody(context)
      const method = fields.string("method")
      const folder = fields.object("kwargs")?.string("weights_path")
      fields.check()
      if (method === undefined) throw malformed("Missing 'method' in request body")
      if (method !== "reload_weights") throw workerFailed(`'CohortWorker' object has no attribute '${method}'`)
      if (folder === undefined) throw workerFailed("reload_weights needs the keyword argument 'weights_path'")
      // The path stays out of the answer, as in vLLM.
      await engine.loadWeights(folder).catch((cause: unknown) => {
        throw workerFailed(messageOf(cause).replaceAll(folder, "<path>"))
      })
      return context.json({ results: [null] })
    })
    .post("/update_weight_version", async (context) => {
      const fields = await readLooseBody(context)
      const version = fields.string("new_version")
      if (fields.raw("new_version") === undefined) fields.missing("new_version")
      fields.check()
      engine.setVersion(version!)
      return context.json({ success: true, new_version: version })
    })
    .get("/weight_info", (context) => context.json({ weight_version: engine.versionLabel }))
    .post("/reset_prefix_cache", async (context) => {
      // Nothing is cached beyond a request's life; only running requests hold keys and values, and a pause clears those.
      return context.json({ success: true })
    })
    .post("/init_weight_transfer_engine", async (context) => {
      const fields = await readLooseBody(context)
      if (fields.raw("init_info") === undefined) {
        // vLLM shows the missing value, not the body.
        fields.report({ type: "missing", loc: "body.init_info", msg: "Field required", input: undefined })
      }
      fields.check()
      throw workerFailed(notConfigured)
    })
    .post("/start_weight_update", () => {
      throw workerFailed(notConfigured)
    })
    .post("/update_weights", () => {
      throw workerFailed(notConfigured)
    })
    .post("/finish_weight_update", () => {
      throw workerFailed(notConfigured)
    })
}
