import { expect, test } from "bun:test"
import { join } from "node:path"
import { loadConfig } from "@cohort/config"
import { quickstartConfig } from "./quickstart-config.ts"

const access = { readText: (path: string) => Bun.file(path).text(), importModule: () => Promise.reject(new Error("not asked for")) }

test("examples/quickstart.toml and the quickstart are the same run", async () => {
  const file = join(import.meta.dir, "../../../examples/quickstart.toml")
  const { config: example } = await loadConfig({ file, flags: [], ...access })
  const { config } = await loadConfig({ file: "quickstart.ts", flags: [], ...access, importModule: () => Promise.resolve({ default: quickstartConfig("../models/arithmetic-1m") }) })
  expect(config).toEqual(example)
})
