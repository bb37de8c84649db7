// Writes docs/objectives/batching.md.
import { batchingMarkdown } from "./markdown.ts"

await Bun.write(new URL("../../../docs/objectives/batching.md", import.meta.url), batchingMarkdown())
