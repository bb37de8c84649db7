// Writes docs/batching.md.
import { batchingMarkdown } from "./markdown.ts"

await Bun.write(new URL("../../../docs/batching.md", import.meta.url), batchingMarkdown())
