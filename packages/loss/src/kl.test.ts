import "../test/evaluate.ts"
import { expect, test } from "bun:test"
import * as tf from "@tensorflow/tfjs-core"
import { expMinusLinear, klEstimate } from "./kl.ts"

const k3 = (x: number): number => expMinusLinear(tf.scalar(x)).dataSync()[0]!

test("small differences neither vanish nor turn negative in float32", () => {
  expect(k3(3e-5) / 4.50004e-10).toBeCloseTo(1, 4)
  expect(k3(2e-6) / 2e-12).toBeCloseTo(1, 4)
  expect(k3(-1e-7)).toBeGreaterThan(0)
  expect(k3(0)).toBe(0)
})

test("agrees with the exact value across the seam of its two forms", () => {
  for (const x of [-5, -1, -0.51, -0.5, -0.49, -0.1, 0.1, 0.49, 0.5, 0.51, 1, 5, 15]) {
    const exact = Math.expm1(x) - x
    expect(Math.abs(k3(x) - exact) / exact).toBeLessThan(1e-6)
  }
})

test("gradients with respect to the policy log-prob are those that the documentation states", () => {
  // x = log q - log p with q = 0.3 fixed; the derivative is with respect to log p.
  const logQ = Math.log(0.3)
  const logP = Math.log(0.5)
  const gradient = (estimator: "k1" | "k2" | "k3"): number =>
    tf.grad((lp: tf.Tensor) => klEstimate(estimator, tf.sub(logQ, lp)))(tf.scalar(logP)).dataSync()[0]!
  expect(gradient("k1")).toBeCloseTo(1, 6)
  expect(gradient("k2")).toBeCloseTo(logP - logQ, 6)
  expect(gradient("k3")).toBeCloseTo(1 - 0.3 / 0.5, 6)
})

test("the sampled k2 gradient is the gradient of KL(p || q) when summed over all tokens", () => {
  const p = [0.2, 0.8]
  const q = [0.5, 0.5]
  // d KL(p || q) / d logit_0 of a two-token softmax, by finite differences.
  const klAt = (shift: number): number => {
    const odds = (p[0]! / p[1]!) * Math.exp(shift)
    const first = odds / (1 + odds)
    return first * Math.log(first / q[0]!) + (1 - first) * Math.log((1 - first) / q[1]!)
  }
  const numeric = (klAt(1e-4) - klAt(-1e-4)) / 2e-4
  const perToken = p.map((value, token) => {
    const logGradient = (token === 0 ? 1 : 0) - p[0]!
    const grad = tf.grad((lp: tf.Tensor) => klEstimate("k2", tf.sub(Math.log(q[token]!), lp)))(tf.scalar(Math.log(value))).dataSync()[0]!
    return value * grad * logGradient
  })
  expect(perToken[0]! + perToken[1]!).toBeCloseTo(numeric, 5)
})
