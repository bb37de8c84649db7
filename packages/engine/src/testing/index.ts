export { createByteTokenizer, type ByteTokenizerOptions } from "./byte-tokenizer.ts"
export { drawToken, type Drawn, type DrawSettings } from "./draw.ts"
export { createHashRunner, mix, weightsOf, type HashRunner, type HashRunnerOptions } from "./hash-runner.ts"
