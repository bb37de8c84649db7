export { FakeEngine, type EngineChoice, type EngineRequest } from "./fake-engine.ts"
export { startFakeServer, type FakeServer, type FakeServerOptions, type RecordedRequest, type ScriptedFailure } from "./fake-server.ts"
export { fakeToken, type FakeToken } from "./fake-tokens.ts"
export { replayServer, type RecordedExchange, type ReplayServer } from "./replay.ts"
