export { answerCalls, type Handlers } from "./answer.ts"
export { type Caller, createCaller } from "./caller.ts"
export { buffersOf, fromPlain, type PlainError, type Port, toPlain } from "./message.ts"
export { type CallThread, startThread } from "./start.ts"
