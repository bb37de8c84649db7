export { commit, temporaryFolder, type TestHub, testHub } from "./hub.ts"
