import { expect, test } from "bun:test"

import { createStopRates } from "./stop-rates.ts"

test("lengths at which sequences end are told from those at which they go on", () => {
  const rates = createStopRates()
  for (let i = 0; i < 200; i++) for (const made of [0, 1, 2]) rates.drew(made, made === 2)
  expect(rates.after(0)).toBeLessThan(0.05)
  expect(rates.after(2)).toBeGreaterThan(0.9)
  // Never seen: the rate of all, here about 200 of 1,600.
  expect(rates.after(7)).toBeCloseTo(201 / 1600, 3)
})

test("a first stop does not make stopping likely", () => {
  const rates = createStopRates()
  rates.drew(0, true)
  expect(rates.after(0)).toBeLessThan(0.1)
})

test("a policy whose answers become longer is followed", () => {
  const rates = createStopRates()
  for (let i = 0; i < 5000; i++) rates.drew(2, true)
  for (let i = 0; i < 5000; i++) rates.drew(2, false)
  expect(rates.after(2)).toBeLessThan(0.05)
})
