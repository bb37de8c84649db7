import { expect, test } from "bun:test"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { resolveConfig } from "@cohort/config"
import { toCohortError } from "@cohort/errors"
import { checkRunParts } from "./check-parts.ts"

const model = new URL("../../../models/arithmetic-1m", import.meta.url).pathname

test("environments and tools that are not there, or are none, are told with the key that names them, all at once", async () => {
  const dir = await mkdtemp(join(tmpdir(), "cohort-parts-"))
  try {
    await writeFile(join(dir, "rows.jsonl"), `{"prompt":"p","environment":"a"}`)
    await writeFile(join(dir, "parts.ts"), `export const world = () => ({ reset() {} }); export const tools = { look: { description: "Looks.", run: () => 1 } }; export const nothing = 7`)
    const check = (environments: readonly string[], tools: readonly string[]): Promise<unknown> =>
      checkRunParts(resolveConfig({
        model: { path: model }, data: { source: "rows.jsonl" },
        environments: environments.map((use, at) => ({ name: `e${at}`, use })), tools: [...tools],
      }), dir, process.env).then(() => [], (error: unknown) => toCohortError(error).details?.["problems"])
    expect(await check(["./parts.ts#world"], ["./parts.ts#tools"])).toEqual([])
    const problems = (await check(["./parts.ts#world", "./parts.ts#nothing", "./absent.ts"], ["./parts.ts#world"])) as readonly string[]
    expect(problems).toHaveLength(3)
    expect(problems[0]).toStartWith("environments[1].use: nothing is 7, not an environment")
    expect(problems[1]).toContain("environments[2].use")
    expect(problems[2]).toStartWith("tools[0].use: world is a function, not a set of tools")
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
