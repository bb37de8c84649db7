// Several environments in one run: each row says by its `environment` column which one its rollouts live in.
import type { EnvironmentFactory, PromptRow } from "@cohort/env"
import { CohortError } from "@cohort/errors"

/**
 * Chooses the factory of a row; only its tools are shown to the model. A row without the column lives in `otherwise`, or has no
 * environment.
 *
 * @throws CohortError `dataset_invalid` from the returned function, before anything is generated, for a name that is none of them
 * @example
 * const worker = createRolloutWorker({ ...options, environmentOf: namedEnvironments({ browser: () => new Browser(), shell: () => new Shell() }) })
 */
export function namedEnvironments(
  environments: Readonly<Record<string, EnvironmentFactory>>,
  otherwise?: EnvironmentFactory,
): (row: Pick<PromptRow, "id" | "environment">) => EnvironmentFactory | undefined {
  return ({ id, environment }) => {
    if (environment === undefined) return otherwise
    if (Object.hasOwn(environments, environment)) return environments[environment]
    throw new CohortError("dataset_invalid", `row ${id} asks for environment "${environment}"`, {
      hint: `Known are: ${Object.keys(environments).join(", ")}.`,
      details: { row: id, environment },
    })
  }
}
