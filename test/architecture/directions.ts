// The arrows between packages that are allowed. Everything else that imports something of ours is an error: see directions.test.ts.

/** What a workspace may import of ours, by folder name. `errors` is left out: every package and app may import it. */
export type Directions = Readonly<Record<string, readonly string[]>>

const leaves = ["config", "env", "batching", "safetensors", "ledger", "loss", "tensor", "thread", "hub"]
const middle = ["plugin", "data", "tokenizer", "inference", "model", "engine", "weight-transfer", "rollout"]

export const packageDirections: Directions = {
  errors: [],
  // Types, schemas and formats. The ledger stores the events that it is given, the loss and the tensor runtime know tfjs only.
  config: [],
  env: [],
  batching: [],
  safetensors: [],
  ledger: [],
  loss: [],
  tensor: [],
  thread: [],
  hub: [],
  plugin: ["env"],
  data: ["env", "hub"],
  tokenizer: ["env"],
  inference: ["env"],
  model: ["tensor", "safetensors", "hub"],
  engine: ["model", "tensor", "tokenizer", "safetensors", "inference", "thread"],
  "weight-transfer": ["inference", "safetensors"],
  rollout: ["env", "tokenizer", "inference", "batching", "thread"],
  // The composition root.
  trainer: [...leaves, ...middle],
  client: [],
}

export const appDirections: Directions = {
  // `tensor` for `cohort runtime`, `engine` for an inference server of its own.
  cli: ["trainer", "client", "plugin", "config", "ledger", "tensor", "engine"],
  "control-plane": ["trainer", "client", "plugin", "config", "ledger"],
  dashboard: ["client"],
}

/** Imports that vanish in the build: the client is typed by the routes of the server it talks to. */
export const typeOnlyDirections: Directions = { client: ["control-plane"] }

/**
 * Plugins by the part of their name before the first dash. `@cohort/plugin` carries the types of `@cohort/env` and the errors; only a plugin that
 * implements another package's protocol needs more.
 */
export const pluginDirections: Directions = {
  reward: ["plugin"],
  env: ["plugin"],
  tracker: ["plugin"],
  trainer: ["plugin", "trainer"],
  transfer: ["plugin", "weight-transfer"],
}

/** Packages that plugin authors depend on: of other people's code they may import these, as types. */
export const authorFacing: Directions = { errors: [], env: ["@standard-schema/spec"], plugin: ["@standard-schema/spec"] }

/** Dependencies that no file imports, because the registry loads them by the name in the config. */
export const loadedByName: Directions = {
  cli: ["@cohort/env-arithmetic", "@cohort/reward-math", "@cohort/reward-format"],
}

/** Development dependencies that published files import, because the build bundles them: their install scripts must not run on a user's machine. */
export const bundled: Directions = { tensor: ["@tensorflow/tfjs-node-gpu"] }
