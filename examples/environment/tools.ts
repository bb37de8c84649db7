// Tools that every episode may call, without an environment.
import { defineTools, tool } from "@cohort/plugin"
import { toStandardJsonSchema } from "@valibot/to-json-schema"
import * as v from "valibot"

const pair = toStandardJsonSchema(v.strictObject({ a: v.number(), b: v.number() }))

export const calculator = defineTools({
  summary: "Multiplication and division",
  setup: () => ({
    multiply: tool({ description: "Multiplies a and b.", input: pair, run: ({ a, b }) => a * b }),
    divide: tool({
      description: "Divides a by b.",
      input: pair,
      run({ a, b }) {
        if (b === 0) throw new Error("b is 0")
        return a / b
      },
    }),
  }),
})
