// Files by hand for the tests: any header, also a wrong one, followed by any bytes.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isCohortError, type CohortError } from "@cohort/errors"

export interface TempFolder extends Disposable {
  readonly path: string
  file(name: string, content: string | Uint8Array): string
}

export function tempFolder(): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "cohort-safetensors-"))
  return {
    path,
    file: (name, content) => {
      writeFileSync(join(path, name), content)
      return join(path, name)
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}

/** Length word, header text, then `data` bytes of zeros. */
export function rawFile(header: string | object, data: number | Uint8Array = 0, claimedLength?: bigint): Uint8Array {
  const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header))
  const body = typeof data === "number" ? new Uint8Array(data) : data
  const out = new Uint8Array(8 + text.length + body.length)
  new DataView(out.buffer).setBigUint64(0, claimedLength ?? BigInt(text.length), true)
  out.set(text, 8)
  out.set(body, 8 + text.length)
  return out
}

/** The CohortError that `run` throws; fails when it throws none. */
export function errorOf(run: () => unknown): CohortError {
  try {
    run()
  } catch (error) {
    if (isCohortError(error)) return error
    throw error
  }
  throw new Error("expected a CohortError, nothing was thrown")
}
