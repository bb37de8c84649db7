import { expect, test } from "bun:test"
import { pipFailure } from "./pip-failure.ts"
import { pins } from "./pins.ts"

const absent = `ERROR: Could not find a version that satisfies the requirement tensorflow-cpu==2.21.0 (from versions: none)
ERROR: No matching distribution found for tensorflow-cpu==2.21.0
`

// Each output is what pip prints in that situation.
test.each([
  ["an index without the wheel", absent, "runtime_unavailable", "does not offer tensorflow-cpu 2.21.0", "PIP_INDEX_URL"],
  [
    "no network",
    `WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/tensorflow-cpu/\n${absent}`,
    "runtime_unavailable",
    "over the network: WARNING: Retrying",
    "PIP_FIND_LINKS",
  ],
  [
    "a download that broke off",
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files', port=443): Read timed out.\n",
    "runtime_unavailable",
    "over the network",
    "proxy",
  ],
  [
    "a proxy with a certificate of its own",
    `Could not fetch URL: There was a problem confirming the ssl certificate: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self signed')) - skipping\n${absent}`,
    "runtime_unavailable",
    "does not trust",
    "PIP_CERT",
  ],
  ["a full disk", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", "disk_full", "disk filled up", "COHORT_CACHE"],
  ["anything else", "Traceback\n\n  odd\nValueError: no\n", "runtime_unavailable", "exit code 2: Traceback | odd | ValueError: no", "by hand"],
  ["silence", "", "runtime_unavailable", "it printed nothing", "by hand"],
])("names the cause: %s", (_, output, code, message, hint) => {
  const error = pipFailure("python3 -m pip", pins[0]!, 2, output)
  expect(error.code).toBe(code as typeof error.code)
  expect(error.message).toContain(message)
  expect(error.hint).toContain(hint)
})

test("says so when pip was killed", () => {
  expect(pipFailure("pip3", pins[0]!, undefined, "").message).toContain("was ended by a signal")
})
