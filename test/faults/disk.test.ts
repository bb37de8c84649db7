// The disk fills up while a checkpoint is written, and a run dies in the middle of writing one.
import { expect } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { openLedgerReader } from "@cohort/ledger"
import { errorOf, faultyRun, readFolder, repository, summaryOf, temporaryFolder, testRun } from "./faulty-run.ts"

const minute = 60_000
const command = [process.execPath, join(repository, "apps/cli/src/main.ts"), "quickstart", "--rollout.groupSize", "4", "--train.completionsPerStep", "16", "--eval.prompts", "4", "--backend.compile", "eager", "--backend.threads", "1", "--inference.threads", "1", "--inference.slots", "16", "--seed", "1"]

/** A small disk of one's own needs a mount namespace, which not every machine gives. */
const privateDisk = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
const canMount = process.platform === "linux" && Bun.which("unshare") !== null && Bun.spawnSync([...privateDisk, "mount -t tmpfs -o size=64k tmpfs /mnt"]).success
if (!canMount) process.stderr.write("the test of a full disk is skipped: this machine gives no mount namespace\n")

testRun.skipIf(!canMount)("a disk that fills up at a checkpoint: disk_full, the one before stays, the folder stays readable and goes on", async () => {
  const folder = await temporaryFolder()
  // One checkpoint is about 9.7 MB; the second does not fit beside it.
  const script = 'mount -t tmpfs -o size=16m tmpfs "$1/disk"; shift_dir="$1"; shift; code=0; "$@" --runDir "$shift_dir/disk" || code=$?; cp -r "$shift_dir/disk" "$shift_dir/left"; exit $code'
  await Bun.write(join(folder, "disk/.keep"), "")
  const child = Bun.spawn([...privateDisk, script, "sh", folder, ...command, "--steps", "50", "--train.checkpointEverySteps", "2", "--json"], { stdout: "pipe", stderr: "pipe", stdin: "ignore" })
  const [errors, code] = await Promise.all([new Response(child.stderr).text(), child.exited, new Response(child.stdout).text()])
  expect([code, errors]).toEqual([1, expect.stringMatching(/disk_full|disk space/)])
  const [name] = readdirSync(join(folder, "left"))
  const left = join(folder, "left", name!)
  expect(JSON.parse(await Bun.file(join(left, "failure.json")).text())).toMatchObject({ code: "disk_full" })
  expect(JSON.parse(await Bun.file(join(left, "config.json")).text())).toMatchObject({ name: "quickstart" })
  expect(readdirSync(join(left, "checkpoints"))).toEqual(["step-000002"])
  expect(violations(left, false)).toEqual([])

  // With room again it goes on from there.
  const resumed = Bun.spawn([process.execPath, command[1]!, "train", "--resume", left, "--train.steps", "5", "--json"], { stdout: "pipe", stderr: "pipe", stdin: "ignore" })
  const [out, said, end] = await Promise.all([new Response(resumed.stdout).text(), new Response(resumed.stderr).text(), resumed.exited])
  expect([end, said]).toEqual([0, expect.stringContaining("step 3/5")])
  expect(JSON.parse(out)).toMatchObject({ steps: 5, stopped: "steps" })
  expect(violations(left, true)).toEqual([])
  expect(existsSync(join(left, "failure.json"))).toBe(false)
}, 2 * minute)

testRun("killed while it writes a checkpoint: the half one is passed over, nothing is lost or trained twice", async () => {
  const folder = await temporaryFolder()
  const child = Bun.spawn([...command, "--steps", "100000", "--train.checkpointEverySteps", "1", "--runDir", folder], { stdout: "ignore", stderr: "ignore", stdin: "ignore" })
  const deadline = performance.now() + minute
  let runDir: string | undefined
  let half: string | undefined
  while (half === undefined) {
    if (performance.now() > deadline || child.exitCode !== null) {
      child.kill("SIGKILL")
      throw new Error("no checkpoint was seen being written")
    }
    await Bun.sleep(0)
    runDir ??= readdirSync(folder).map((name) => join(folder, name))[0]
    if (runDir === undefined || !existsSync(join(runDir, "checkpoints"))) continue
    const names = readdirSync(join(runDir, "checkpoints"))
    if (names.some((name) => /^step-\d+$/.test(name))) half = names.find((name) => name.endsWith(".tmp"))
  }
  child.kill("SIGKILL")
  await child.exited
  const complete = readdirSync(join(runDir!, "checkpoints")).filter((name) => /^step-\d+$/.test(name)).toSorted()
  const last = Number(complete.at(-1)!.slice("step-".length))

  const resumed = Bun.spawn([process.execPath, command[1]!, "train", "--resume", runDir!, "--train.steps", String(last + 3), "--json"], { stdout: "pipe", stderr: "pipe", stdin: "ignore" })
  const [out, said, code] = await Promise.all([new Response(resumed.stdout).text(), new Response(resumed.stderr).text(), resumed.exited])
  expect([code, said]).toEqual([0, expect.stringContaining(`step ${last + 1}/${last + 3}`)])
  expect(JSON.parse(out)).toMatchObject({ steps: last + 3, stopped: "steps" })
  expect(violations(runDir!, true)).toEqual([])
  expect(readdirSync(join(runDir!, "checkpoints")).filter((name) => name.endsWith(".tmp"))).toEqual([])
}, 2 * minute)

testRun("a run that failed goes on from its last checkpoint once the cause is gone", async () => {
  let broken = true
  const rewards = {
    mood: (rollout: { readonly completionIds: Int32Array }, { policyVersion }: { readonly policyVersion: number }) => {
      if (broken && policyVersion >= 2) throw new Error("not today")
      return rollout.completionIds.length
    },
  }
  const patch = { rewards: [{ use: "mood", retries: 0 }], train: { steps: 5, completionsPerStep: 8, checkpointEverySteps: 1 } }
  const first = await faultyRun({ patch, rewards })
  expect((await errorOf(first)).message).toContain("not today")
  const before = readFolder(first.dir, false)
  expect(before.violations).toEqual([])
  broken = false
  const second = await faultyRun({ patch, rewards, resume: first.dir })
  const summary = await summaryOf(second)
  expect(summary).toMatchObject({ stopped: "steps", steps: 5 })
  const left = readFolder(first.dir)
  expect(left.violations).toEqual([])
  expect(left.summary?.steps).toBe(5)
  expect(left.failure).toBeUndefined()
}, 2 * minute)

function violations(runDir: string, ended: boolean): readonly string[] {
  using ledger = openLedgerReader(join(runDir, "events.db"))
  return ledger.audit({ ended }).violations.map(({ message }) => message)
}
