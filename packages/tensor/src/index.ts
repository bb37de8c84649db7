export type { HostArray } from "./binding.ts"
export { fromBfloat16, toBfloat16 } from "./bfloat16.ts"
export type { CompiledFunction, CompileMode, CompileOptions, MatMulPrecision } from "./compile.ts"
export { defaultOpenOptions, openDefaultRuntime, type DefaultOptions } from "./default.ts"
export { DType } from "./dtype.ts"
export { inLanes } from "./in-lanes.ts"
export { recallMeasured, rememberMeasured } from "./measured.ts"
export { openRuntime, type OpenOptions } from "./open.ts"
export {
  cacheFolder,
  ensureRuntime,
  findRuntime,
  installRuntime,
  pins,
  runtimeInfo,
  systemHost,
  type Environment,
  type FindOptions,
  type FoundRuntime,
  type Host,
  type InstallOptions,
  type InstallProgress,
  type RuntimeInfo as InstalledRuntimeInfo,
  type RuntimeKind,
  type RuntimeLookup,
  type RuntimePin,
} from "./install/index.ts"
export type { RawOps } from "./raw.ts"
export { type BackendName, type RuntimeInfo, type TensorRuntime, type VariableType } from "./runtime.ts"
export type { Variable } from "./variable.ts"
