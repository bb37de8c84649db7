// The list of settings, for help pages, forms and completion.
import { describeType } from "./describe.ts"
import { deepFreeze, isJsonValue, type JsonValue } from "./json.ts"
import { keyNodes } from "./tree.ts"

/** One setting. */
export interface ConfigKey {
  /** Dotted path, as `train.learningRate`. */
  readonly path: string
  /** The values it takes, in words. */
  readonly type: string
  /** Undefined where there is none. */
  readonly default: JsonValue | undefined
  readonly required: boolean
  readonly doc: string
  /** `--train.learningRate`. */
  readonly flag: string
  /** `COHORT__TRAIN__LEARNING_RATE`. */
  readonly env: string
}

/** Prefix of the environment variables that are settings. */
export const ENV_PREFIX = "COHORT__"

/** Name of the environment variable of a dotted path. */
export function envName(path: string): string {
  return ENV_PREFIX + path.split(".").map((part) => part.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase()).join("__")
}

const keys: readonly ConfigKey[] = deepFreeze(
  keyNodes.map(
    (node): ConfigKey => ({
      path: node.path,
      type: describeType(node.schema),
      default: isJsonValue(node.default) ? node.default : undefined,
      required: node.required,
      doc: node.doc,
      flag: `--${node.path}`,
      env: envName(node.path),
    }),
  ),
)

/**
 * Every setting of a run, drawn from the schema.
 *
 * @example
 * configKeys().find((key) => key.path === "train.learningRate")?.default // 0.000001
 */
export function configKeys(): readonly ConfigKey[] {
  return keys
}
