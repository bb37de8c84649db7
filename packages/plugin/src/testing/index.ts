export { type ConformanceReport, type ConformanceSettings, conformance } from "./conformance.ts"
export { type FakeRollout, fakeRewardContext, fakeRollout, fakeSetupContext, mulberry32 } from "./fake.ts"
export { garbageTexts } from "./garbage.ts"
export { type RewardCase, testReward } from "./reward-cases.ts"
