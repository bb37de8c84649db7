// libtensorflow as a table of C functions over bun:ffi, plus the one status object that every call reports through.
// The eager (TFE_*) and graph (TF_*) halves of the C API live in the same shared library.
import { dlopen, FFIType, ptr, toArrayBuffer, type Pointer } from "bun:ffi"
import { existsSync } from "node:fs"
import { CohortError, messageOf } from "@cohort/errors"

const P = FFIType.ptr
const I = FFIType.i32
const U = FFIType.u64
const V = FFIType.void

const symbolTable = {
  TF_Version: { args: [], returns: FFIType.cstring },
  TF_NewStatus: { args: [], returns: P },
  TF_GetCode: { args: [P], returns: I },
  TF_Message: { args: [P], returns: FFIType.cstring },
  TF_AllocateTensor: { args: [I, P, I, U], returns: P },
  TF_TensorData: { args: [P], returns: P },
  TF_TensorByteSize: { args: [P], returns: FFIType.u64_fast },
  TF_DeleteTensor: { args: [P], returns: V },
  TFE_NewContextOptions: { args: [], returns: P },
  TFE_ContextOptionsSetConfig: { args: [P, P, U, P], returns: V },
  TFE_DeleteContextOptions: { args: [P], returns: V },
  TFE_NewContext: { args: [P, P], returns: P },
  TFE_DeleteContext: { args: [P], returns: V },
  TFE_ContextListDevices: { args: [P, P], returns: P },
  TFE_ContextAddFunction: { args: [P, P, P], returns: V },
  TFE_ContextRemoveFunction: { args: [P, P, P], returns: V },
  TF_DeviceListCount: { args: [P], returns: I },
  TF_DeviceListName: { args: [P, I, P], returns: FFIType.cstring },
  TF_DeviceListType: { args: [P, I, P], returns: FFIType.cstring },
  TF_DeleteDeviceList: { args: [P], returns: V },
  TFE_NewExecutor: { args: [FFIType.u8, FFIType.u8, I], returns: P },
  TFE_DeleteExecutor: { args: [P], returns: V },
  TFE_ExecutorWaitForAllPendingNodes: { args: [P, P], returns: V },
  TFE_ExecutorClearError: { args: [P], returns: V },
  TFE_ContextGetExecutorForThread: { args: [P], returns: P },
  TFE_ContextSetExecutorForThread: { args: [P, P], returns: V },
  TFE_NewTensorHandle: { args: [P, P], returns: P },
  TFE_DeleteTensorHandle: { args: [P], returns: V },
  TFE_TensorHandleDataType: { args: [P], returns: I },
  TFE_TensorHandleNumDims: { args: [P, P], returns: I },
  TFE_TensorHandleDim: { args: [P, I, P], returns: FFIType.i64_fast },
  TFE_TensorHandleResolve: { args: [P, P], returns: P },
  TFE_TensorHandleCopyToDevice: { args: [P, P, P, P], returns: P },
  TFE_NewOp: { args: [P, P, P], returns: P },
  TFE_DeleteOp: { args: [P], returns: V },
  TFE_OpAddInput: { args: [P, P, P], returns: V },
  TFE_OpAddInputList: { args: [P, P, I, P], returns: V },
  TFE_OpSetAttrString: { args: [P, P, P, U], returns: V },
  TFE_OpSetAttrInt: { args: [P, P, FFIType.i64], returns: V },
  TFE_OpSetAttrFloat: { args: [P, P, FFIType.f32], returns: V },
  TFE_OpSetAttrBool: { args: [P, P, FFIType.u8], returns: V },
  TFE_OpSetAttrType: { args: [P, P, I], returns: V },
  TFE_OpSetAttrShape: { args: [P, P, P, I, P], returns: V },
  TFE_OpSetAttrIntList: { args: [P, P, P, I], returns: V },
  TFE_OpSetAttrFloatList: { args: [P, P, P, I], returns: V },
  TFE_OpSetAttrBoolList: { args: [P, P, P, I], returns: V },
  TFE_OpSetAttrStringList: { args: [P, P, P, P, I], returns: V },
  TFE_OpSetAttrTypeList: { args: [P, P, P, I], returns: V },
  TFE_Execute: { args: [P, P, P, P], returns: V },
  TF_NewGraph: { args: [], returns: P },
  TF_DeleteGraph: { args: [P], returns: V },
  TF_NewOperation: { args: [P, P, P], returns: P },
  TF_AddInput: { args: [P, P, I], returns: V },
  TF_AddInputList: { args: [P, P, I], returns: V },
  TF_AddControlInput: { args: [P, P], returns: V },
  TF_SetAttrString: { args: [P, P, P, U], returns: V },
  TF_SetAttrStringList: { args: [P, P, P, P, I], returns: V },
  TF_SetAttrInt: { args: [P, P, FFIType.i64], returns: V },
  TF_SetAttrFloat: { args: [P, P, FFIType.f32], returns: V },
  TF_SetAttrBool: { args: [P, P, FFIType.u8], returns: V },
  TF_SetAttrType: { args: [P, P, I], returns: V },
  TF_SetAttrShape: { args: [P, P, P, I], returns: V },
  TF_SetAttrIntList: { args: [P, P, P, I], returns: V },
  TF_SetAttrFloatList: { args: [P, P, P, I], returns: V },
  TF_SetAttrBoolList: { args: [P, P, P, I], returns: V },
  TF_SetAttrTypeList: { args: [P, P, P, I], returns: V },
  TF_SetAttrTensor: { args: [P, P, P, P], returns: V },
  TF_SetAttrFuncName: { args: [P, P, P, U], returns: V },
  TF_FinishOperation: { args: [P, P], returns: P },
  TF_OperationOutputType: { args: [P, I], returns: I },
  TF_GraphGetTensorNumDims: { args: [P, P, I, P], returns: I },
  TF_GraphGetTensorShape: { args: [P, P, I, P, I, P], returns: V },
  TF_GraphSetTensorShape: { args: [P, P, I, P, I, P], returns: V },
  TF_GraphToFunction: { args: [P, P, FFIType.u8, I, P, I, P, I, P, P, P, P, P], returns: P },
  TF_GraphCopyFunction: { args: [P, P, P, P], returns: V },
  TF_DeleteFunction: { args: [P], returns: V },
} as const

/** The C functions, typed by name. */
export type Symbols = ReturnType<typeof dlopen<typeof symbolTable>>["symbols"]

/** An address in the library; 0 is null. */
export type Address = Pointer

export interface Library {
  readonly c: Symbols
  readonly version: string
  readonly path: string
  /** Throws `tensor_failed` with TensorFlow's message when the last call that took {@link Library.status} failed. */
  check(what: string): void
  readonly status: Address
  /** NUL-terminated name with process lifetime: TensorFlow keeps pointers to attribute names. */
  name(text: string): Uint8Array
  /** Native memory behind `address` as a typed view of `bytes` bytes. */
  view(address: Address, bytes: number): Uint8Array
}

/**
 * Sets variables in the C environment, where libtensorflow reads them: assigning to `process.env` does not reach it.
 * Takes effect only before the library is opened. Values already set by the user stay.
 */
function setEnvironment(variables: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(variables)) libc().setenv(ptr(Buffer.from(`${key}\0`)), ptr(Buffer.from(`${value}\0`)), 0)
}

function libc() {
  return dlopen("libc.so.6", {
    setenv: { args: [P, P, I], returns: I },
    open: { args: [P, I], returns: I },
    dup: { args: [I], returns: I },
    dup2: { args: [I, I], returns: I },
    close: { args: [I], returns: I },
    flock: { args: [I, I], returns: I },
  }).symbols
}

/**
 * Static initialisers of the library print to stderr before any log level applies; errors still come as exceptions. Descriptor 2
 * belongs to the whole process, so threads take turns: the lock is on a file of this process.
 */
function withoutStderr<T>(body: () => T): T {
  const { open, dup, dup2, close, flock } = libc()
  const lockExclusive = 2
  const lock = open(ptr(Buffer.from("/proc/self/comm\0")), 0)
  if (lock < 0) return body()
  try {
    if (flock(lock, lockExclusive) !== 0) return body()
    const saved = dup(2)
    const sink = open(ptr(Buffer.from("/dev/null\0")), 1)
    dup2(sink, 2)
    try {
      return body()
    } finally {
      dup2(saved, 2)
      close(saved)
      close(sink)
    }
  } finally {
    close(lock)
  }
}

/** Element-wise work between matrix products is compiled by XLA; the products themselves stay with oneDNN. */
const clusterFlags = "--tf_xla_cpu_global_jit --tf_xla_ops_to_cluster=FUSIBLE --tf_xla_min_cluster_size=2 --tf_xla_deterministic_cluster_names"

/** What the user can do about a message of the dynamic loader. */
export function loadHint(message: string): string {
  if (/libstdc\+\+|libgcc_s|GLIBCXX_|CXXABI_/.test(message))
    return "The C++ runtime is missing or old: install libstdc++6 (Debian, Ubuntu: apt-get install libstdc++6; Fedora: dnf install libstdc++; Nix: add stdenv.cc.cc.lib to LD_LIBRARY_PATH)."
  if (/GLIBC_\d/.test(message)) return "The C library of this system is older than the library needs: use a newer distribution or a container."
  if (/wrong ELF class|invalid ELF header|Exec format/.test(message)) return "The file is not a library for this CPU: run `cohort runtime install` to fetch the right one."
  const missing = /(\S+\.so[.\d]*): cannot open shared object file/.exec(message)?.[1]
  if (missing !== undefined && !message.includes(`library "${missing}"`)) return `Install the system package that holds ${missing}, or add its folder to LD_LIBRARY_PATH.`
  return "Run `cohort runtime install` to fetch the library that this version was tested with."
}

/**
 * Opens libtensorflow.
 * @param path `libtensorflow_cc.so.2`, with `libtensorflow_framework.so.2` beside it
 * @param xlaCacheDir folder of compiled XLA programs kept between starts; entries are valid for one CPU kind and library version
 * @throws CohortError `runtime_unavailable` when it does not load or is not TensorFlow 2
 */
export function openLibrary(path: string, xlaCacheDir?: string): Library {
  if (!existsSync(path))
    throw new CohortError("runtime_unavailable", `libtensorflow: no file at ${path}`, { hint: "Run `cohort runtime install`, or set COHORT_LIBTENSORFLOW to libtensorflow_cc.so.2." })
  const cache = xlaCacheDir === undefined ? "" : ` --tf_xla_persistent_cache_directory=${xlaCacheDir} --tf_xla_persistent_cache_prefix=c`
  setEnvironment({ TF_CPP_MIN_LOG_LEVEL: "3", TF_XLA_FLAGS: clusterFlags + cache })
  let c: Symbols
  try {
    c = withoutStderr(() => dlopen(path, symbolTable).symbols)
  } catch (cause) {
    const message = messageOf(cause)
    throw new CohortError("runtime_unavailable", `libtensorflow: ${path} does not load: ${message}`, { cause, hint: loadHint(message) })
  }
  const version = String(c.TF_Version())
  if (!version.startsWith("2."))
    throw new CohortError("runtime_unavailable", `libtensorflow: ${path} is version ${version}, 2.x is needed`)
  const status = c.TF_NewStatus() as Address
  const names = new Map<string, Uint8Array>()
  return {
    c,
    version,
    path,
    status,
    check(what) {
      if (c.TF_GetCode(status) !== 0) throw new CohortError("tensor_failed", `${what}: ${String(c.TF_Message(status))}`)
    },
    name(text) {
      let bytes = names.get(text)
      if (bytes === undefined) names.set(text, (bytes = Buffer.from(`${text}\0`)))
      return bytes
    },
    view: (address, bytes) => new Uint8Array(toArrayBuffer(address, 0, bytes)),
  }
}
