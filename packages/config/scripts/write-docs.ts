// Writes docs/config.md from the schema.
import { configMarkdown } from "../src/index.ts"

await Bun.write(new URL("../../../docs/config.md", import.meta.url), configMarkdown())
