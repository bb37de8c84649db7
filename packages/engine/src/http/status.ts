// What the server says about itself: health, version, load, the model, how many workers.
import { Hono } from "hono"

import { protocolVersion, type Api } from "./api.ts"

export function statusRoutes(api: Api) {
  const { engine } = api
  // Drawn once: a model's card must not change from call to call.
  const permissionId = `modelperm-${api.newId()}`
  return new Hono()
    .get("/health", (context) => context.body(null, engine.health().ready ? 200 : 503))
    .get("/version", (context) => context.json({ version: protocolVersion }))
    .get("/load", (context) => context.json({ server_load: api.load }))
    .get("/get_world_size", (context) => context.json({ world_size: 1 }))
    .get("/v1/models", (context) =>
      context.json({
        object: "list",
        data: [
          {
            id: engine.modelName,
            object: "model",
            created: api.startedAtSeconds,
            owned_by: "cohort",
            root: engine.modelFolder,
            parent: null,
            max_model_len: engine.contextLength,
            permission: [
              {
                id: permissionId,
                object: "model_permission",
                created: api.startedAtSeconds,
                allow_create_engine: false,
                allow_sampling: true,
                allow_logprobs: true,
                allow_search_indices: false,
                allow_view: true,
                allow_fine_tuning: false,
                organization: "*",
                group: null,
                is_blocking: false,
              },
            ],
          },
        ],
      }),
    )
}
