// The tools of a config: those that every episode may call, in this process or in isolates.
import type { ToolSet } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import type { SetupContext } from "@cohort/plugin"
import { Opened } from "./isolate/opened.ts"
import { openIsolatedTools } from "./isolate/plugin.ts"
import type { TaskOptions, Tasks } from "./tasks.ts"

/**
 * The tools of all entries together, each with its entry's deadline.
 *
 * @throws CohortError `plugin_not_found`, `plugin_invalid`, `config_invalid` naming the key that asked
 */
export async function openTools({ config, registry, env }: TaskOptions, setup: SetupContext): Promise<Pick<Tasks, "tools" | "pids" | "close">> {
  const isolates = new Opened()
  const all: Record<string, ToolSet[string]> = {}
  const askedBy: Record<string, string> = {}
  try {
    for (const [index, entry] of config.tools.entries()) {
      const { use, options, deadlineMs, isolate } = entry
      const key = `tools[${index}].use`
      const { tools } = isolate
        ? isolates.add(await openIsolatedTools({ ...entry, askedBy: key }, { registry, plugins: config.plugins, env, setup }))
        : await registry.tools(use, setup, { options, askedBy: key })
      for (const [name, tool] of Object.entries(tools)) {
        if (Object.hasOwn(all, name))
          throw new CohortError("config_invalid", `two tools are named ${JSON.stringify(name)}: of ${askedBy[name]} and of ${key} = ${JSON.stringify(use)}`, { hint: "A model calls a tool by its name: leave one of them out." })
        all[name] = { ...tool, timeoutMs: tool.timeoutMs ?? deadlineMs }
        askedBy[name] = `${key} = ${JSON.stringify(use)}`
      }
    }
  } catch (error) {
    await isolates.close()
    throw error
  }
  return { tools: Object.keys(all).length === 0 ? undefined : all, pids: isolates.pids, close: () => isolates.close() }
}
