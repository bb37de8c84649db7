// `bun run docs`: writes the metric tables of docs/glossary.md.
import { join } from "node:path"
import { withMetricTables } from "./glossary.ts"

const path = join(import.meta.dir, "../../docs/glossary.md")
await Bun.write(path, withMetricTables(await Bun.file(path).text()))
