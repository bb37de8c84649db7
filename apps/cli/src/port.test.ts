import { expect, test } from "bun:test"
import { checkPortFree } from "./port.ts"

test("names the port that is taken, and leaves a free one free", () => {
  const taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  const { port } = taken
  expect(() => checkPortFree("127.0.0.1", port)).toThrow(expect.objectContaining({ code: "port_in_use", message: expect.stringContaining(String(port)) }))
  taken.stop(true)
  checkPortFree("127.0.0.1", port)
  checkPortFree("127.0.0.1", port)
})
