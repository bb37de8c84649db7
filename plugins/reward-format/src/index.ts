export { linearRegex } from "./linear-regex.ts"
export { type FormatOptions, default, format, formatOptions } from "./plugin.ts"
export { sectionProblem } from "./sections.ts"
