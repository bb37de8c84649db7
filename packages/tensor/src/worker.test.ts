import { expect, test } from "bun:test"
import { libraryPath } from "./testing/runtime.ts"

test.skipIf(libraryPath === undefined)("two threads have a runtime each, and stderr comes back", async () => {
  const script = `
    const run = (factor) => new Promise((resolve, reject) => {
      const worker = new Worker(${JSON.stringify(new URL("./testing/worker.ts", import.meta.url).href)})
      worker.onmessage = (event) => { resolve(event.data); worker.terminate() }
      worker.onerror = (event) => reject(new Error(event.message))
      worker.postMessage({ libraryPath: ${JSON.stringify(libraryPath)}, factor, steps: 4 })
    })
    console.log(JSON.stringify(await Promise.all([run(1), run(2)])))
    console.error("stderr works")`
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "pipe", timeout: 60_000 })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  const zero = { tensors: 0, bytes: 0 }
  expect(JSON.parse(out)).toEqual([{ values: [1, 1, 1], counters: zero }, { values: [16, 16, 16], counters: zero }])
  expect(err.trim()).toBe("stderr works")
}, 60_000)
