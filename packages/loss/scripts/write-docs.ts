// Writes docs/objectives.
import { objectiveDocs } from "./markdown.ts"

for (const [name, text] of objectiveDocs()) await Bun.write(new URL(`../../../docs/objectives/${name}`, import.meta.url), text)
