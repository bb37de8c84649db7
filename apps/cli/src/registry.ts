// The plugins that a run started here can name: those of the user's project, then those that come with this program.
import { createRegistry, type Registry, systemHost } from "@cohort/plugin"

export function cliRegistry(): Registry {
  return createRegistry({ ...systemHost(), installDirs: [import.meta.dir] })
}
