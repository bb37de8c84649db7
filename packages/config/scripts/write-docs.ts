// Writes docs/config.md and docs/from-trl.md from the schema and the table of TRL's options.
import { configMarkdown, trlMarkdown } from "../src/index.ts"

await Bun.write(new URL("../../../docs/config.md", import.meta.url), configMarkdown())
await Bun.write(new URL("../../../docs/from-trl.md", import.meta.url), trlMarkdown())
