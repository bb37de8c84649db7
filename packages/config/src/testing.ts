// What the tests of this package share.
import { isCohortError } from "@cohort/errors"
import type { ConfigIssue } from "./issue.ts"
import type { ConfigSources } from "./load.ts"

/** The least that a run needs. */
export const minimal = { model: { path: "models/tiny" }, data: { source: "env-arithmetic" } } as const

/** Sources whose only file has this text. */
export function sourcesOf(given: { file?: string; text?: string; flags?: string[]; env?: Record<string, string> }): ConfigSources {
  const { file, text = "", flags = [], env = {} } = given
  return {
    ...(file === undefined ? {} : { file }),
    flags,
    env,
    readText: () => Promise.resolve(text),
    importModule: () => Promise.reject(new Error("no modules here")),
  }
}

/** Flags for {@link minimal}. */
export const minimalFlags = ["--model.path", "models/tiny", "--data.source", "env-arithmetic"]

/** The issues of the `config_invalid` that `act` throws, with its message. */
export async function issuesOf(act: () => unknown): Promise<{ issues: readonly ConfigIssue[]; message: string }> {
  try {
    await act()
  } catch (error) {
    if (!isCohortError(error) || error.code !== "config_invalid") throw error
    return { issues: (error.details?.["issues"] ?? []) as readonly ConfigIssue[], message: error.message } // set by configError
  }
  throw new Error("the config was accepted")
}
