// Loads weights into one server and keeps the one promise that matters: after a failed load nothing runs until a load succeeded.
import { CohortError, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import type { VersionTracker } from "./versions.ts"
import { checkNames, type ReadWeightNames } from "./weights-folder.ts"

export interface Weights {
  readonly path: string
  readonly version: number
}

export interface WeightLoaderOptions {
  readonly name: string
  readonly tracker: VersionTracker
  readonly readNames: ReadWeightNames
  /** Makes the server read a folder, given as the server sees it. `inference_rejected` means that it refused and its weights are untouched; any other error leaves them unknown. */
  reload(weights: Weights): Promise<void>
  readonly pathOnServer: (path: string) => string
  /** Where the server's first weights came from, as it sees the path itself, when it tells. */
  originalFolder(): Promise<string | undefined>
}

export interface WeightLoader {
  /**
   * Loads a folder; the server must be paused. On failure the last good folder is loaded again before the error is thrown.
   * @throws CohortError `file_invalid`, `inference_rejected` (nothing was touched), `inference_failed` (`details.recovered` tells
   * whether the server is back on its last good weights)
   */
  load(weights: Weights): Promise<void>
  /** @throws CohortError `inference_failed` after a load that left the weights unknown */
  assertWhole(doing: string): void
  /** @throws CohortError `inference_failed` while a load runs, too */
  assertSettled(doing: string): void
}

export function weightLoader(options: WeightLoaderOptions): WeightLoader {
  const { name, tracker } = options
  const initialVersion = tracker.current
  let good: Weights | undefined
  let names: ReadonlySet<string> | undefined
  let broken: string | undefined
  let loading: string | undefined

  const recover = async (failed: Weights, cause: unknown): Promise<CohortError> => {
    const why = `${name} could not load version ${failed.version} from ${failed.path}: ${messageOf(cause)}`
    broken = why
    try {
      const original = good === undefined ? await options.originalFolder() : undefined
      const last = good ?? (original === undefined ? undefined : { path: original, version: initialVersion })
      if (last === undefined) throw new Error("where its first weights came from is not known")
      await options.reload(last)
      broken = undefined
      return new CohortError("inference_failed", `${why}. It runs on version ${last.version} again.`, {
        details: { recovered: true, version: failed.version },
        cause,
      })
    } catch (error) {
      return new CohortError("inference_failed", `${why}. Loading the last good weights failed too (${messageOf(error)}), so it stays paused.`, {
        hint: "Load weights that are whole, or restart the server: a request sent to it now would kill its worker.",
        details: { recovered: false, version: failed.version },
        cause,
      })
    }
  }

  const assertWhole = (doing: string) => {
    if (broken === undefined) return
    throw new CohortError("inference_failed", `${doing} refused: ${broken}`, {
      hint: "Load whole weights first; the server may run again only after one load succeeded.",
      details: { recovered: false },
    })
  }

  return {
    assertWhole,
    assertSettled(doing) {
      if (loading !== undefined)
        throw new CohortError("inference_failed", `${doing} refused: ${name} is loading ${loading}`, { hint: "Wait for loadWeights to end." })
      assertWhole(doing)
    },
    async load(weights) {
      if (loading !== undefined) throw new CohortError("inference_rejected", `${name}: ${loading} is still being loaded`, { hint: "Load one version at a time." })
      if (!tracker.paused)
        throw new CohortError("inference_rejected", `${name}: loadWeights of version ${weights.version} while the server is not paused`, {
          hint: "Call pause() first; weights that change under running requests mix old and new in one token.",
        })
      loading = `version ${weights.version}`
      try {
        const found = await options.readNames(weights.path)
        if (names !== undefined) checkNames(found, names, `${name}: ${weights.path}`)
        const onServer = { path: options.pathOnServer(weights.path), version: weights.version }
        try {
          await options.reload(onServer)
        } catch (error) {
          if (isCohortError(error) && error.code === "inference_rejected") throw error
          throw await recover(weights, error)
        }
        good = onServer
        names = found
        broken = undefined
        tracker.switchTo(weights.version)
      } catch (error) {
        throw toCohortError(error, "inference_failed", name)
      } finally {
        loading = undefined
      }
    },
  }
}
