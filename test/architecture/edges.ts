// The files at the edge of the packages: the only ones that may read the clock, chance, the environment or the network by themselves.

/** What core logic takes as an argument instead. */
export const ambient = {
  clock: /\bDate\.now\b|\bnew Date\(\s*\)|\bperformance\.now\b/,
  chance: /\bMath\.random\b/,
  environment: /\bprocess\.env\b|\bBun\.env\b/,
  // A call, not a method of that name.
  network: /(?<![.\w])fetch\((?![^()]*\)\s*\{)|\bglobalThis\.fetch\b|\bnew WebSocket\(/,
} as const satisfies Readonly<Record<string, RegExp>>

export type Ambient = keyof typeof ambient

/** By file: what it may use. Each makes the real thing for others, or is a process of its own. */
export const edges: Readonly<Record<string, readonly Ambient[]>> = {
  "packages/engine/src/compiled/create-runner.ts": ["clock"],
  "packages/engine/src/compiled/form.ts": ["clock"],
  "packages/engine/src/compiled/open-runner.ts": ["clock"],
  "packages/engine/src/process/host.ts": ["clock", "chance"],
  "packages/engine/src/process/spawn.ts": ["environment"],
  "packages/engine/src/serve.ts": ["clock", "chance"],
  "packages/hub/src/online.ts": ["network"],
  "packages/inference/src/clock.ts": ["clock"],
  "packages/inference/src/server-options.ts": ["chance"],
  "packages/plugin/src/testing/reward-checks.ts": ["clock"],
  "packages/rollout/src/system-clock.ts": ["clock"],
  "packages/tensor/src/install/host.ts": ["clock"],
  "packages/trainer/src/colocated.ts": ["clock", "chance"],
  "packages/trainer/src/create-run.ts": ["clock"],
  "packages/trainer/src/embedded/backend.ts": ["clock"],
  "packages/trainer/src/servers.ts": ["clock"],
}
