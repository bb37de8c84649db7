// A small runtime for tests: a wheel of a few megabytes, its pin, and a `python3` that behaves like `python3 -m pip`, so that
// the installer's own path runs whole: processes, files, hashes, locks.
import { createHash } from "node:crypto"
import { chmod, mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Host } from "../host.ts"
import { systemHost } from "../host.ts"
import type { RuntimePin } from "../pins.ts"
import { makeZip } from "./zip-writer.ts"

export interface FakeRuntime {
  readonly dir: string
  readonly cacheDir: string
  readonly env: Readonly<Record<string, string>>
  readonly pin: RuntimePin
  readonly host: Host
  /** Contents of the pinned libraries, by base name. */
  readonly libraries: Readonly<Record<string, Buffer>>
  /** Arguments of each `download` so far. */
  downloads(): Promise<readonly (readonly string[])[]>
}

/** What the fake pip does when asked to download. */
export type FakePipMode = "good" | "fail" | "hang" | "no-pip"

// Like pip: downloads to a folder of its own under TMPDIR, then copies the wheel to --dest.
const pipProgram = `
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
const args = process.argv.slice(2)
const { FAKE_DIR, FAKE_MODE, FAKE_STDERR, TMPDIR } = process.env
if (FAKE_MODE === "no-pip") { console.error("/usr/bin/python3: No module named pip"); process.exit(1) }
if (args.includes("--version")) { console.log("pip 23.2.1"); process.exit(0) }
appendFileSync(join(FAKE_DIR, "downloads.jsonl"), JSON.stringify(args) + "\\n")
if (FAKE_MODE === "fail") { console.error(FAKE_STDERR); process.exit(1) }
const wheel = readFileSync(join(FAKE_DIR, "wheel.zip"))
if (FAKE_MODE === "hang") writeFileSync(join(FAKE_DIR, "pip.pid"), String(process.pid))
const temporary = mkdtempSync(join(TMPDIR, "pip-unpack-"))
const part = join(temporary, "fake-1.0-cp312.whl")
for (let at = 0; at < wheel.length; at += 1 << 20) {
  appendFileSync(part, wheel.subarray(at, at + (1 << 20)))
  await Bun.sleep(15)
  if (FAKE_MODE === "hang") await Bun.sleep(60_000)
}
const dest = args.find((arg) => arg.startsWith("--dest=")).slice(7)
copyFileSync(part, join(dest, "fake-1.0-cp312.whl"))
rmSync(temporary, { recursive: true })
`

const libraries = {
  "libtensorflow_cc.so.2": noise(3_500_000, 1),
  "libtensorflow_framework.so.2": noise(700_000, 2),
}
const wheel = makeZip([
  { name: "tensorflow/__init__.py", data: Buffer.from("raise SystemExit") },
  ...Object.entries(libraries).map(([name, data]) => ({ name: `tensorflow/${name}`, data })),
])

/** Makes a fake runtime in a temporary folder, which the caller removes. */
export async function fakeRuntime(options: { readonly mode?: FakePipMode; readonly stderr?: string } = {}): Promise<FakeRuntime> {
  const dir = await mkdtemp(join(tmpdir(), "cohort-install-"))
  const bin = join(dir, "bin")
  await mkdir(bin)
  await writeFile(join(dir, "wheel.zip"), wheel)
  await writeFile(join(dir, "pip.js"), pipProgram)
  // The arguments start with `-m pip`, which the program does not need.
  await writeFile(join(bin, "python3"), `#!/bin/sh\nshift 2\nexec '${process.execPath}' '${join(dir, "pip.js")}' "$@"\n`)
  await chmod(join(bin, "python3"), 0o755)
  const host = { ...systemHost(), platform: "linux-x64", glibc: "2.36" }
  return {
    dir,
    cacheDir: join(dir, "cache"),
    env: { PATH: bin, HOME: dir, FAKE_DIR: dir, FAKE_MODE: options.mode ?? "good", FAKE_STDERR: options.stderr ?? "" },
    host,
    libraries,
    pin: {
      kind: "cpu",
      platform: "linux-x64",
      package: "fake",
      version: "1.0",
      wheel: {
        python: "3.12",
        abi: "cp312",
        platformTag: "manylinux_2_27_x86_64",
        bytes: wheel.length,
        sha256: createHash("sha256").update(wheel).digest("hex"),
      },
      files: [
        { entry: "tensorflow/libtensorflow_cc.so.2", bytes: libraries["libtensorflow_cc.so.2"].length },
        { entry: "tensorflow/libtensorflow_framework.so.2", bytes: libraries["libtensorflow_framework.so.2"].length },
      ],
    },
    downloads: async () => {
      const text = await readFile(join(dir, "downloads.jsonl"), "utf8").catch(() => "")
      return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as string[])
    },
  }
}

/** Bytes that deflate cannot shrink much, the same for the same seed, starting like a shared library. */
function noise(bytes: number, seed: number): Buffer {
  const data = Buffer.alloc(bytes)
  let state = seed
  for (let at = 0; at + 4 <= bytes; at += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    data.writeUInt32LE((state ^ (state >>> 13)) >>> 0, at)
  }
  data.write("\x7fELF", 0, "latin1")
  return data
}
