import { expect, test } from "bun:test"
import { isFetched, systemHost } from "./host.ts"

test("a package that Bun fetched by itself counts as absent, installed ones do not", () => {
  expect(isFetched("/bun/install/cache/inline@0.0.2@@@1/index.js")).toBe(true)
  expect(isFetched("C:\\\\bun\\\\install\\\\cache\\\\inline@0.0.2@@registry.example@@@1\\\\index.js")).toBe(true)
  for (const path of ["/project/node_modules/@cohort/aa/index.js", "/project/node_modules/.bun/@cohort+aa@1.0.0/node_modules/@cohort/aa/index.js", "/project/mine@2.ts"]) expect(isFetched(path)).toBe(false)
  expect(systemHost().resolve("@cohort/env", import.meta.dir)).toContain("packages/env/src/index.ts")
})
