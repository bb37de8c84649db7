// What differs between two configs, and which of it a resumed run cannot take.
import { CohortError } from "@cohort/errors"
import { type JsonValue, showValue } from "./json.ts"
import { leavesOf } from "./leaf.ts"
import type { RunConfig } from "./schema.ts"

/** A setting that differs; a side without the setting has no value. */
export interface ConfigChange {
  readonly path: string
  readonly before?: JsonValue
  readonly after?: JsonValue
}

/** Settings, and whole sections, that the state of a run is bound to: the prompt cursor, the groups in the ledger, the checkpoint. */
export const RESUME_FIXED: readonly string[] = [
  "seed",
  "model.path",
  "model.lora",
  "data.source",
  "data.options",
  "data.promptColumn",
  "data.shuffle",
  "data.maxPromptTokens",
  "environment",
  "environments",
  "rollout.groupSize",
]

/** JSON with the keys of tables in order: their order has no meaning. */
function canonical(value: JsonValue): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner) ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inner,
  )
}

/**
 * Settings that differ between two configs: in the order of the schema, those that only `before` has last.
 *
 * @example
 * configDiff(a, b) // [{ path: "train.steps", before: 100, after: 200 }]
 */
export function configDiff(before: RunConfig, after: RunConfig): readonly ConfigChange[] {
  const old = new Map(leavesOf(before).map(({ path, value }) => [path, value]))
  const changes: ConfigChange[] = []
  for (const { path, value } of leavesOf(after)) {
    const was = old.get(path)
    old.delete(path)
    if (was === undefined) changes.push({ path, after: value })
    else if (canonical(was) !== canonical(value)) changes.push({ path, before: was, after: value })
  }
  for (const [path, value] of old) changes.push({ path, before: value })
  return changes
}

const isFixed = (path: string): boolean => RESUME_FIXED.some((fixed) => path === fixed || path.startsWith(`${fixed}.`))
const side = (value: JsonValue | undefined): string => (value === undefined ? "nothing" : showValue(value))

/**
 * Changes that a resumed run takes over. Throws `config_invalid`, naming each key with both values, when one of {@link RESUME_FIXED} differs;
 * `details.changes` holds those.
 */
export function checkResume(before: RunConfig, after: RunConfig): readonly ConfigChange[] {
  const changes = configDiff(before, after)
  const refused = changes.filter(({ path }) => isFixed(path))
  if (refused.length === 0) return changes
  const list = refused.map((change) => `  ${change.path}: the run has ${side(change.before)}, now ${side(change.after)}`)
  throw new CohortError("config_invalid", `a resumed run cannot change ${refused.map(({ path }) => path).join(", ")}:\n${list.join("\n")}`, {
    hint: "Put these settings back, or start a new run from the checkpoint with model.path.",
    details: { changes: refused },
  })
}
