// Chooses a backend, opens it and checks it: libtensorflow first, then wasm, then plain JavaScript.
import "@tensorflow/tfjs-core/dist/register_all_gradients"
import { backend as tfBackend, env as tfEnv, removeBackend, setBackend } from "@tensorflow/tfjs-core"
import type { BackendWasm } from "@tensorflow/tfjs-backend-wasm"
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import { availableParallelism } from "node:os"
import { createBinding } from "./binding.ts"
import { createCluster } from "./cluster.ts"
import { createCompile, type MatMulPrecision } from "./compile.ts"
import { DType } from "./dtype.ts"
import { registerGradients } from "./gradients.ts"
import { repairBroadcastProducts } from "./kernels-fallback.ts"
import { openLibrary } from "./library.ts"
import { createRawOps } from "./raw.ts"
import { type BackendName, fallbackRuntime, type TensorRuntime } from "./runtime.ts"
import { selfCheck } from "./selfcheck.ts"
import { createVariableFactory } from "./variable.ts"
import { createWhileLoop } from "./while-loop.ts"

export interface OpenOptions {
  /** `auto` takes the fastest that works. */
  readonly backend?: "auto" | BackendName
  /** Path of libtensorflow_cc.so.2; absent means that it is not installed. */
  readonly libraryPath?: string | undefined
  /** Why there is no library path and what to do about it, for the line that explains a fallback. */
  readonly libraryMissing?: { readonly reason: string; readonly hint: string } | undefined
  /** Why `backend` names one, for the same line. */
  readonly because?: string
  /** Threads of one op; default all cores. */
  readonly threads?: number | undefined
  /** Functions that run side by side, see `lanes` of the runtime; default 1. Not used on a GPU: `info.lanes` is then 1. */
  readonly lanes?: number | undefined
  /** Folder where compiled XLA programs are kept between starts. */
  readonly xlaCacheDir?: string | undefined
}

const tensorflowBackend = "tensorflow"

/** Kernels are registered once per process. */
let repairedCpu = false

/** tfjs's registries are global, so a thread has one TensorFlow runtime: who opens it again shares it, the last to close it ends it. */
let shared: { readonly path: string; readonly runtime: TensorRuntime; users: number } | undefined

const howToGetTheFastOne = "Run `cohort runtime install` for the fast one."

/**
 * Opens the tensor runtime of this process. tfjs keeps its state on the global object, so there is one per thread.
 *
 * @throws CohortError `runtime_unavailable` when the backend asked for by name does not work, or none does
 * @example
 * const runtime = await openRuntime({ libraryPath: "/opt/tf/libtensorflow_cc.so.2" })
 * const double = runtime.compile((x) => [tf.mul(x, 2)], { name: "double" })
 */
export function openRuntime(options: OpenOptions = {}): Promise<TensorRuntime> {
  // One after the other: two at once would register the backend twice.
  const opened = lastOpened.then(() => openNow(options))
  lastOpened = opened.then(ignore, ignore)
  return opened
}

let lastOpened: Promise<void> = Promise.resolve()

/** The result, or the failure, is the business of who asked for it. */
function ignore(): void {}

async function openNow(options: OpenOptions): Promise<TensorRuntime> {
  tfEnv().set("PROD", true)
  const wanted = options.backend ?? "auto"
  const refused: string[] = []
  const order: readonly BackendName[] = wanted === "auto" ? ["tensorflow", "wasm", "cpu"] : [wanted]
  for (const name of order) {
    try {
      const runtime = await openBackend(name, options, wanted === "auto" ? refused.join(" ") : (options.because ?? `${wanted} was asked for.`))
      // After the backend, whose imports register tfjs's own again.
      registerGradients()
      try {
        await selfCheck(runtime)
      } catch (error) {
        runtime.close()
        throw error
      }
      return runtime
    } catch (error) {
      if (wanted !== "auto") throw error
      const hint = isCohortError(error) ? error.hint : undefined
      refused.push(`${name} is not used: ${messageOf(error)}.${hint === undefined ? "" : ` ${hint}`}`)
    }
  }
  throw new CohortError("runtime_unavailable", `no tensor backend works: ${refused.join(" ")}`, { hint: howToGetTheFastOne })
}

async function openBackend(name: BackendName, options: OpenOptions, because: string): Promise<TensorRuntime> {
  if (name === "tensorflow") return openTensorflow(options)
  if (name === "wasm") await import("@tensorflow/tfjs-backend-wasm")
  else await import("@tensorflow/tfjs-backend-cpu")
  if (!(await setBackend(name))) throw new CohortError("runtime_unavailable", `tfjs's ${name} backend did not start`)
  if (name === "cpu" && !repairedCpu) {
    repairedCpu = true
    repairBroadcastProducts(name)
  }
  if (name === "wasm") (await import("./kernels-wasm.ts")).repairWasm(tfBackend() as BackendWasm)
  return fallbackRuntime({ backend: name, version: "tfjs 4.22.0", device: name, threads: 1, lanes: 1, because })
}

/** A face of the shared runtime whose close() counts once. */
function share(state: NonNullable<typeof shared>): TensorRuntime {
  state.users++
  let closed = false
  return {
    ...state.runtime,
    close() {
      if (closed) return
      closed = true
      if (--state.users > 0) return
      shared = undefined
      removeBackend(tensorflowBackend)
      state.runtime.close()
    },
  }
}

async function openTensorflow(options: OpenOptions): Promise<TensorRuntime> {
  if (options.libraryPath === undefined)
    throw new CohortError("runtime_unavailable", options.libraryMissing?.reason ?? "libtensorflow is not installed", { hint: options.libraryMissing?.hint ?? howToGetTheFastOne })
  if (shared !== undefined) {
    if (shared.path !== options.libraryPath)
      throw new CohortError("runtime_unavailable", `this thread already runs ${shared.path}, so ${options.libraryPath} cannot be opened too`, { hint: "Close the first runtime, or use a Worker." })
    await setBackend(tensorflowBackend)
    return share(shared)
  }
  const { threads = availableParallelism(), lanes = 1 } = options
  const library = openLibrary(options.libraryPath, options.xlaCacheDir)
  const binding = createBinding(library, { intraOpThreads: threads, interOpThreads: lanes })
  // Imported here: the kernels pull in tfjs's union package, which the fallbacks do not need.
  const [{ TensorflowBackend }, { registerTensorflow }] = await Promise.all([import("./tensorflow-backend.ts"), import("./register.ts")])
  const backend = new TensorflowBackend(binding)
  const raw = createRawOps(backend)
  let precision: MatMulPrecision = "f32"
  registerTensorflow(backend, raw, () => precision)
  if (!(await setBackend(tensorflowBackend))) throw new CohortError("runtime_unavailable", "tfjs refused the tensorflow backend")
  const compile = createCompile(backend, (wanted, body) => {
    const before = precision
    precision = wanted
    try {
      return body()
    } finally {
      precision = before
    }
  })
  const makeVariable = createVariableFactory(backend)
  const types = { f32: DType.float32, bf16: DType.bfloat16, i32: DType.int32 } as const
  const runtime: TensorRuntime = {
    info: { backend: "tensorflow", version: library.version, device: binding.device.gpu ? "gpu" : "cpu", threads, lanes: binding.device.gpu ? 1 : lanes, because: "" },
    raw,
    compile: (fn, settings) => compile(fn, { mode: "xla", ...settings }),
    whileLoop: createWhileLoop(backend),
    cluster: createCluster(backend),
    lanes(bodies) {
      try {
        return bodies.map((body, lane) => binding.inLane(lane, body))
      } finally {
        binding.joinLanes()
      }
    },
    variable: (name, shape, type, initial) => makeVariable(name, shape, types[type], initial),
    counters: binding.counters,
    close: binding.close,
  }
  shared = { path: options.libraryPath, runtime, users: 0 }
  return share(shared)
}
