// A rollout worker over a simulated server, served to a run: the program of the thread and of the child process in remote.test.ts.
import { CohortError } from "@cohort/errors"
import { createRolloutWorker, type HostOptions, portToParent, portToRun, serveRolloutWorker, systemClock, throttled, type WorkerPort } from "../src/index.ts"
import { createSimulatedServer, simulatedOptions } from "../src/testing/index.ts"

export interface ProgramSettings {
  readonly groupsPerStep?: number
  readonly queueCapacity?: number
  readonly maxStaleness?: number
  readonly tokenMs?: number
  /** What happens while this occurrence is scored. */
  readonly at?: number
  readonly happens?: "exit" | "throwLater" | "block"
  readonly refuse?: string
  /** Generates with the run's servers. */
  readonly borrows?: boolean
}

const hostOptions: HostOptions = { clock: systemClock, heartbeatMs: 20 }

export function serveProgram(port: WorkerPort): void {
  serveRolloutWorker<ProgramSettings>(
    port,
    ({ settings, throttle, server: lent, ...link }) => {
      const { at, happens, refuse, borrows = false, tokenMs = 1, ...options } = settings
      if (refuse !== undefined) throw new CohortError("tokenizer_invalid", refuse, { hint: "Take another." })
      const server = createSimulatedServer({ clock: systemClock, seed: 3, tokenMs })
      const simulated = simulatedOptions(systemClock, server)
      const worker = createRolloutWorker({
        ...simulated,
        ...options,
        ...link,
        server: borrows ? lent : server,
        heartbeatMs: 20,
        policy: throttled(simulated.policy, throttle),
        rewards: [{ ...simulated.rewards[0]!, timeoutMs: 60_000, reward: ({ row, completionIds }) => {
          if (row.id === `row-${at}`) happen(happens)
          return completionIds.length
        } }],
      })
      // The simulated weights follow at once.
      const setPolicyVersion = worker.setPolicyVersion.bind(worker)
      worker.setPolicyVersion = (version) => {
        server.setVersion(version)
        setPolicyVersion(version)
      }
      return { worker }
    },
    hostOptions,
  )
}

function happen(what: ProgramSettings["happens"]): void {
  if (what === "exit") process.exit(7)
  if (what === "throwLater") setTimeout(() => { throw new Error("a plugin threw outside of its call") })
  if (what === "block") for (;;);
}

if (process.send !== undefined) serveProgram(portToParent(process))
else if (!Bun.isMainThread) serveProgram(portToRun())
