// The loss from hidden states and its gradients at a vocabulary of 49,152 and 4,096 tokens, hidden size 576: time, and memory above what was there before,
// against PyTorch as it is commonly written (logits, log_softmax, gather, loss, backward). A process each, so that peaks are their own.
//
//     COHORT_BENCH_PYTHON=python bun run objective.ts
import { readFileSync } from "node:fs"
import { objectiveScalars, type ObjectiveSpec, policyObjective } from "@cohort/loss"
import { headLogProbs, normal, uniform } from "@cohort/model"
import { openDefaultRuntime } from "@cohort/tensor"
import * as tf from "@tensorflow/tfjs-core"
import { askPeer, figure } from "./peer.ts"

const TOKENS = 4096
const VOCABULARY = 49_152
const WIDTH = 576
const ROUNDS = 4

/** Bytes of this process: now, and at most so far. */
function memory(): { readonly now: number; readonly peak: number } {
  const status = readFileSync("/proc/self/status", "utf8")
  const kib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? Number.NaN)
  return { now: kib("VmRSS") * 1024, peak: kib("VmHWM") * 1024 }
}

const runtime = await openDefaultRuntime({ env: process.env, signal: new AbortController().signal, backend: "tensorflow" })
const rows = 8
const spec: ObjectiveSpec = { kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.28, temperature: 1, normalizer: TOKENS }
const scalars = objectiveScalars(spec)
const next = normal(uniform(1), 1)
const floats = (size: number, scale: number): Float32Array => Float32Array.from({ length: size }, () => scale * next())

const hidden = runtime.variable("hidden", [TOKENS, WIDTH], "f32", floats(TOKENS * WIDTH, 1))
const head = runtime.variable("head", [VOCABULARY, WIDTH], "f32", floats(VOCABULARY * WIDTH, 0.04))
const gradients = [runtime.variable("dHidden", [TOKENS, WIDTH], "f32", new Float32Array(TOKENS * WIDTH)), runtime.variable("dHead", [VOCABULARY, WIDTH], "f32", new Float32Array(VOCABULARY * WIDTH))]
const step = runtime.compile(
  (targets_N, behavior_N, advantages_N) => {
    const { value, grads } = tf.valueAndGrads((hidden_ND: tf.Tensor, head_VD: tf.Tensor) => {
      const { logProbs_N, entropies_N } = headLogProbs(hidden_ND, head_VD, targets_N!, tf.scalar(1))
      return policyObjective(spec, {
        rows, length: TOKENS / rows, logProbs_N, entropy_N: entropies_N,
        behaviorLogProbs_N: behavior_N as tf.Tensor1D, advantages_N: advantages_N as tf.Tensor1D, weights_N: tf.ones([TOKENS]), mask_N: tf.ones([TOKENS]),
        scalars: Object.fromEntries(Object.entries(scalars).map(([name, scalar]) => [name, tf.scalar(scalar)])),
      }).loss
    })([hidden.value(), head.value()])
    for (const [index, gradient] of grads.entries()) gradients[index]!.assign(gradient)
    return [tf.reshape(value, [1])]
  },
  { name: "objective from hidden states", mode: "graph" },
)
const inputs = [
  tf.tensor1d(Int32Array.from({ length: TOKENS }, (_, index) => (index * 7919) % VOCABULARY), "int32"),
  tf.tensor1d(new Float32Array(TOKENS).fill(-11)),
  tf.tensor1d(Float32Array.from({ length: TOKENS }, (_, index) => (index % 8) - 3.5)),
]
const before = memory().now
let seconds = Infinity
for (let round = 0; round < ROUNDS; round++) {
  const start = performance.now()
  tf.tidy(() => step(...inputs)[0]!.dataSync())
  seconds = Math.min(seconds, (performance.now() - start) / 1000)
}
const logitsBytes = TOKENS * VOCABULARY * 4
const peakBytes = memory().peak - before
const peer = await askPeer("objective.py", { tokens: TOKENS, vocabulary: VOCABULARY, width: WIDTH, rounds: ROUNDS, threads: runtime.info.threads })
figure("loss and gradients, 4,096 tokens, vocabulary 49,152", {
  backend: runtime.info.backend, seconds, peakBytes, logitsCopies: peakBytes / logitsBytes,
  ...(peer === undefined ? {} : { peer: "PyTorch", peerSeconds: peer["seconds"], peerPeakBytes: peer["peakBytes"], peerLogitsCopies: peer["peakBytes"]! / logitsBytes, speedup: peer["seconds"]! / seconds }),
})
runtime.close()
