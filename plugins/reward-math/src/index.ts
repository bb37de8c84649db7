export { type CompareOptions, sameAnswer } from "./compare.ts"
export { type Extracted, type ExtractOptions, type Method, defaultExtract, extractAnswer, referenceAnswer } from "./extract.ts"
export { type MathOptions, default, equivalence, mathOptions, scoreAnswer } from "./plugin.ts"
