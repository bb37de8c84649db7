// Reads from pip's last lines why a download failed, so that the user hears the cause and what helps.
import { CohortError } from "@cohort/errors"
import type { RuntimePin } from "./pins.ts"

export const otherWays = "or set COHORT_LIBTENSORFLOW to a libtensorflow_cc.so.2 of your own."

/** The last `count` lines that say something, on one line. */
export function lastLines(output: string, count: number): string {
  return spokenLines(output).slice(-count).join(" | ")
}

/** In this order: pip closes with "No matching distribution" also when the network or the certificate was at fault. */
const causes = {
  disk: /No space left on device|Errno 28\b|Disk quota exceeded/,
  certificate: /CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerificationError/,
  network:
    /name resolution|Name or service not known|lookup address|NewConnectionError|Failed to establish a new connection|Network is unreachable|ProxyError|timed out|Connection (refused|reset|aborted)|IncompleteRead/i,
  absent: /No matching distribution|Could not find a version/,
}

/**
 * The error for a pip download that ended with `code` (undefined: ended by a signal) after printing `output`.
 *
 * @param label how pip was called, such as `python3 -m pip`
 */
export function pipFailure(label: string, pin: RuntimePin, code: number | undefined, output: string): CohortError {
  const wanted = `${pin.package} ${pin.version}`
  const details = { command: label, code: code ?? null, output: lastLines(output, 40) }
  if (causes.disk.test(output))
    return new CohortError("disk_full", `the disk filled up while ${label} downloaded ${wanted}`, {
      hint: "Free disk space, or set COHORT_CACHE to a folder on another disk.",
      details,
    })
  const certificate = lineWith(output, causes.certificate)
  if (certificate !== undefined)
    return new CohortError("runtime_unavailable", `${label} does not trust the package index's certificate: ${certificate}`, {
      hint: `Set PIP_CERT to the certificate file of your network, ${otherWays}`,
      details,
    })
  const network = lineWith(output, causes.network)
  if (network !== undefined)
    return new CohortError("runtime_unavailable", `${label} could not download ${wanted} over the network: ${network}`, {
      hint: `Check network and proxy. Without network: copy the wheel here and set PIP_NO_INDEX=1 and PIP_FIND_LINKS to its folder, ${otherWays}`,
      details,
    })
  const absent = lineWith(output, causes.absent)
  if (absent !== undefined)
    return new CohortError("runtime_unavailable", `the package index of ${label} does not offer ${wanted} for ${pin.wheel.platformTag}: ${absent}`, {
      hint: `Point pip to an index that has it (PIP_INDEX_URL), ${otherWays}`,
      details,
    })
  const how = code === undefined ? "was ended by a signal" : `failed with exit code ${code}`
  return new CohortError("runtime_unavailable", `${label} download of ${wanted} ${how}: ${lastLines(output, 3) || "it printed nothing"}`, {
    hint: `Run "${label} download --no-deps ${pin.package}==${pin.version}" by hand to see more, ${otherWays}`,
    details,
  })
}

/** The first line that matches, cut to a length that fits an error message. */
function lineWith(output: string, pattern: RegExp): string | undefined {
  const line = spokenLines(output).find((each) => pattern.test(each))
  return line === undefined || line.length <= 300 ? line : `${line.slice(0, 300)}...`
}

function spokenLines(output: string): readonly string[] {
  return output
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
}
