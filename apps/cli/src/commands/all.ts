// All commands; each is loaded when it is asked for.
import type { CommandGroup } from "../command.ts"

export const root: CommandGroup = {
  summary: "Cohort trains language models with asynchronous GRPO.",
  commands: {
    quickstart: async () => (await import("./quickstart.ts")).quickstart,
    init: async () => (await import("./init.ts")).init,
    train: async () => (await import("./train.ts")).train,
    passrate: async () => (await import("./passrate.ts")).passrate,
    eval: async () => (await import("./eval.ts")).evaluation,
    serve: async () => (await import("./serve.ts")).serve,
    config: async () => (await import("./config.ts")).config,
    runtime: async () => (await import("./runtime.ts")).runtime,
  },
}
