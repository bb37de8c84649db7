// The HTTP surface in one app: every resource's routes, one place for errors, limits and keys.
import { timingSafeEqual } from "node:crypto"

import { Hono } from "hono"
import { bodyLimit } from "hono/body-limit"

import { createApi, type ApiOptions } from "./api.ts"
import { chatRoutes } from "./chat.ts"
import { completionsRoutes } from "./completions.ts"
import { controlRoutes } from "./control.ts"
import { ApiError, errorBody, toApiError } from "./errors.ts"
import { generateRoutes } from "./generate.ts"
import { metricsRoutes } from "./metrics.ts"
import { statusRoutes } from "./status.ts"
import { tokenizeRoutes } from "./tokenize.ts"
import { weightsRoutes } from "./weights.ts"

/**
 * vLLM's routes over an engine; `serveEngine` puts it on a port.
 *
 * @example
 * const app = createEngineApp({ engine, now: Date.now, random: Math.random })
 * const answer = await app.request("/health")
 */
export function createEngineApp(options: ApiOptions): Hono {
  const api = createApi(options)
  const app = new Hono()

  app.use(async (context, next) => {
    if (api.apiKey !== undefined && context.req.path !== "/health" && !sameText(context.req.header("authorization") ?? "", `Bearer ${api.apiKey}`))
      return context.json({ error: "Unauthorized" }, 401)
    await next()
  })
  app.use(
    bodyLimit({
      maxSize: api.maxBodyBytes,
      onError: () => {
        throw new ApiError(413, "BadRequestError", `The request body is larger than ${api.maxBodyBytes} bytes.`)
      },
    }),
  )
  for (const routes of [statusRoutes, metricsRoutes, tokenizeRoutes, completionsRoutes, chatRoutes, generateRoutes, controlRoutes, weightsRoutes])
    app.route("/", routes(api))

  const known = new Set(app.routes.filter((route) => route.method !== "ALL").map((route) => route.path))
  app.notFound((context) => (known.has(context.req.path) ? context.json({ detail: "Method Not Allowed" }, 405) : context.json({ detail: "Not Found" }, 404)))
  app.onError((thrown, context) => {
    const error = toApiError(thrown)
    return context.json(errorBody(error), error.status)
  })
  return app
}

function sameText(left: string, right: string): boolean {
  const [a, b] = [new TextEncoder().encode(left), new TextEncoder().encode(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}
