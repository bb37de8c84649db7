export { answerCalls, type Handlers } from "./answer.ts"
export { type Caller, createCaller } from "./caller.ts"
export type { Port } from "./message.ts"
export { type CallThread, startThread } from "./start.ts"
