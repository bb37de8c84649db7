// One door to every kind of inference server.
import { CohortError } from "@cohort/errors"
import type { InferenceServer } from "./protocol.ts"
import { sglangServer, type SglangOptions } from "./sglang.ts"
import { vllmServer, type VllmOptions } from "./vllm.ts"

export type InferenceServerOptions =
  /** The embedded engine speaks vLLM's routes and tells the version of every token. */
  | ({ readonly kind: "embedded" } & VllmOptions)
  | ({ readonly kind: "vllm" } & VllmOptions)
  | ({ readonly kind: "sglang" } & SglangOptions)

/**
 * Makes the client of one inference server.
 *
 * @throws CohortError `config_invalid` for an unknown kind or an address that is none
 * @example
 * const server = inferenceServer({ kind: "vllm", url: "http://127.0.0.1:8000", model: "policy" })
 */
export function inferenceServer(options: InferenceServerOptions): InferenceServer & { readonly name: string } {
  switch (options.kind) {
    case "embedded":
      return vllmServer({ route: "generate", ...options })
    case "vllm":
      return vllmServer(options)
    case "sglang":
      return sglangServer(options)
    default:
      throw new CohortError("config_invalid", `inference server kind is '${String((options as { kind: unknown }).kind)}'`, {
        hint: "Use embedded, vllm or sglang.",
        details: { field: "kind" },
      })
  }
}
