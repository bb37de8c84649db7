// From files, environment and flags to one frozen config that knows where every value came from.
import { checkDraft } from "./check.ts"
import { Draft } from "./draft.ts"
import { readEnvironment } from "./environment-variables.ts"
import { type FileAccess, readConfigFile } from "./file.ts"
import { readFlags } from "./flags.ts"
import { configError } from "./issue.ts"
import { deepFreeze } from "./json.ts"
import { leavesOf } from "./leaf.ts"
import type { RunConfig, RunConfigInput } from "./schema.ts"
import { type ConfigWarning, configWarnings } from "./warning.ts"

/** By dotted path: `default`, `file cohort.toml:train.steps`, `env COHORT__TRAIN__STEPS`, `flag --train.steps` or `override`. */
export type Origins = Readonly<Record<string, string>>

/** What {@link loadConfig} reads, later ones over earlier ones: file, environment, flags, overrides. */
export interface ConfigSources extends FileAccess {
  readonly file?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Arguments as they came, as `["--train.steps", "20"]`. */
  readonly flags: readonly string[]
  readonly overrides?: PartialInput
}

/** Any part of a {@link RunConfigInput}. */
export type PartialInput = {
  readonly [K in keyof RunConfigInput]?: (RunConfigInput[K] extends readonly unknown[] | undefined ? RunConfigInput[K] : Partial<RunConfigInput[K]>) | undefined
}

export interface LoadedConfig {
  readonly config: RunConfig
  readonly origins: Origins
  /** Settings that work but seldom do what was wanted. */
  readonly warnings: readonly ConfigWarning[]
}

function finish(draft: Draft): LoadedConfig {
  const { run, issues } = checkDraft(draft)
  if (issues.length > 0) throw configError(issues)
  const config: RunConfig = deepFreeze(run)
  const origins = Object.fromEntries(leavesOf(config).map(({ path }) => [path, draft.originOf(path)]))
  return { config, origins: deepFreeze(origins), warnings: configWarnings(config) }
}

/**
 * Merges every source into a config. Precedence: override, flag, environment, file, default.
 *
 * Throws one `config_invalid` that lists all problems (`details.issues`), or `config_not_found`.
 *
 * @example
 * const { config, origins } = await loadConfig({
 *   file: "cohort.toml",
 *   flags: ["--train.learningRate", "1e-5"],
 *   env: process.env,
 *   readText: (path) => Bun.file(path).text(),
 *   importModule: (path) => import(path),
 * })
 */
export async function loadConfig(sources: ConfigSources): Promise<LoadedConfig> {
  const { file } = sources
  const draft = new Draft()
  if (file !== undefined) draft.addInput(await readConfigFile(file, sources), (path) => `file ${file}:${path}`)
  for (const { assignments, issues } of [readEnvironment(sources.env ?? {}), readFlags(sources.flags)]) {
    for (const { key, value, origin } of assignments) draft.addKey(key, value, () => origin)
    draft.issues.push(...issues)
  }
  draft.addInput(sources.overrides, () => "override")
  return finish(draft)
}

/**
 * The config of an input that is at hand already: a library call, a request, a stored run.
 *
 * Throws one `config_invalid` that lists all problems.
 *
 * @example
 * const config = resolveConfig({ model: { path: "models/tiny" }, data: { source: "env-arithmetic" } })
 */
export function resolveConfig(input: RunConfigInput): RunConfig {
  const draft = new Draft()
  draft.addInput(input, () => "input")
  return finish(draft).config
}
