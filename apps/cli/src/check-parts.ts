// What a config names must be there: the model's folder, data files, plugins with options that they take. Nothing is started.
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import type { RunConfig } from "@cohort/config"
import { CohortError, toCohortError } from "@cohort/errors"
import type { SetupContext } from "@cohort/plugin"
import { cliRegistry } from "./registry.ts"

/** Plugins that wait for something at set-up are given up after this. */
const setupTimeoutMs = 30_000

/**
 * Looks for everything that a config names.
 *
 * @throws CohortError `config_invalid` that lists all that is missing or refused
 */
export async function checkRunParts(config: RunConfig, projectDir: string, env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const { checkModel } = await import("@cohort/trainer")
  const registry = cliRegistry()
  const ctx: SetupContext = { signal: AbortSignal.timeout(setupTimeoutMs), log: () => {}, random: () => 0.5, projectDir }
  const { data, environment, environments, tools, rewards, plugins } = config
  const problems: string[] = []
  async function look(askedBy: string, work: () => unknown): Promise<void> {
    try {
      await work()
    } catch (error) {
      const { message, hint } = toCohortError(error)
      problems.push(`${message.includes(askedBy) ? "" : `${askedBy}: `}${message}${hint === undefined ? "" : `${/[.!?]$/.test(message) ? "" : "."} ${hint}`}`)
    }
  }
  await look("model.path", () => checkModel(config.model.path, { projectDir, env, signal: ctx.signal }))
  for (const name of plugins) await look("plugins", () => registry.load(name, projectDir, "plugins"))
  const sources = [["data.source", data.source, data.options], ["data.evalSource", data.evalSource, {}]] as const
  for (const [key, source, options] of sources) {
    if (source === undefined) continue
    if (/\.(jsonl|json|parquet)$/i.test(source)) await look(key, () => checkFile(resolve(projectDir, source)))
    else await look(key, () => registry.environment(source, ctx, { options, askedBy: key }))
  }
  if (environment !== undefined) await look("environment.use", () => registry.environmentFactory(environment.use, ctx, { options: environment.options, askedBy: "environment.use" }))
  for (const [index, { use, options }] of environments.entries()) {
    const askedBy = `environments[${index}].use`
    await look(askedBy, () => registry.environmentFactory(use, ctx, { options, askedBy }))
  }
  for (const [index, { use, options }] of tools.entries()) {
    const askedBy = `tools[${index}].use`
    await look(askedBy, () => registry.tools(use, ctx, { options, askedBy }))
  }
  for (const [index, { use, options }] of rewards.entries()) {
    const askedBy = `rewards[${index}].use`
    await look(askedBy, async () => {
      const loaded = await registry.reward(use, ctx, { options, askedBy })
      await loaded.reward.close?.()
    })
  }
  if (problems.length === 0) return
  throw new CohortError("config_invalid", `${problems.length === 1 ? "1 problem" : `${problems.length} problems`} with what the configuration names:\n${problems.map((problem) => `  ${problem}`).join("\n")}`, {
    details: { problems },
  })
}

function checkFile(path: string): void {
  if (!existsSync(path)) throw new CohortError("dataset_invalid", `there is no file ${path}`, { hint: "Relative paths start at the config file's folder." })
}
