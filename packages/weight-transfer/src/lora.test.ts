import { afterEach, beforeEach, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { vllmServer } from "@cohort/inference"
import { type RecordedExchange, replayServer } from "@cohort/inference/testing"
import { openSafetensors } from "@cohort/safetensors"
import { loraTransfer } from "./filesystem.ts"
import type { WeightSource } from "./protocol.ts"

let dir = ""
beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), "cohort-lora-"))))
afterEach(() => rm(dir, { recursive: true, force: true }))

const recorded = async (name: string): Promise<RecordedExchange> => Bun.file(new URL(`../fixtures/vllm/${name}.json`, import.meta.url)).json()
const serverOf = async (...names: readonly string[]) => replayServer(await Promise.all(names.map(recorded)))
const names = ["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"]

function adapter(value: () => number): WeightSource {
  return {
    names,
    companionFiles: { "adapter_config.json": '{"peft_type":"LORA"}' },
    tensors: () => names.map((name, index) => ({ name, dtype: "F32" as const, shape: [2], bytes: new Uint8Array(Float32Array.of(value(), index).buffer) })),
  }
}

test("each version is a folder in PEFT's layout that servers load without a pause, under a name that no other run has; old ones go", async () => {
  using a = await serverOf("201-load-lora-v1", "210-unload-lora-v1")
  using b = await serverOf("201-load-lora-v1", "210-unload-lora-v1")
  const servers = [a, b].map(({ url }, index) => vllmServer({ url, model: "policy", name: `s${index}` }))
  const transfer = loraTransfer({ dir, keep: 2, unique: () => "0123456789abcdef" })
  let version = 0
  await transfer.init(adapter(() => version), servers)
  for (version = 1; version <= 4; version++) {
    const report = await transfer.push(version)
    expect(report).toMatchObject({ version, pausedSeconds: 0, servers: [{ ok: true }, { ok: true }] })
    const sent = a.received.get("POST /v1/load_lora_adapter")!.at(-1) as { readonly lora_name: string; readonly lora_path: string }
    expect(sent.lora_name).toBe(`policy-v${version}.0123456789ab`)
    expect(b.received.get("POST /v1/load_lora_adapter")!.at(-1)).toEqual(sent)
    expect((await readdir(sent.lora_path)).toSorted()).toEqual(["adapter_config.json", "adapter_model.safetensors", "weights.json"])
    using file = openSafetensors(join(sent.lora_path, "adapter_model.safetensors"))
    expect([...file.names].toSorted()).toEqual(names.toSorted())
    expect([...file.f32(names[1]!)]).toEqual([version, 1])
    expect(report.bytes).toBe(Bun.file(join(sent.lora_path, "adapter_model.safetensors")).size)
  }
  const unloaded = (server: typeof a): unknown[] => (server.received.get("POST /v1/unload_lora_adapter") ?? []).map((body) => (body as { readonly lora_name: string }).lora_name)
  expect(unloaded(a)).toEqual(["policy-v1.0123456789ab", "policy-v2.0123456789ab"])
  expect(unloaded(b)).toEqual(unloaded(a))
  expect((await readdir(join(dir, (await readdir(dir))[0]!))).toSorted()).toEqual(["policy-v3", "policy-v4"])
  // Nothing was paused or asked of routes that need the development mode.
  expect([...a.received.keys()].toSorted()).toEqual(["POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter"])
  await transfer.close()
  expect(unloaded(a)).toHaveLength(4)
  expect(await readdir(dir)).toEqual([])
})

test("a server that cannot take an adapter is told in the report; none at all fails the push", async () => {
  using good = await serverOf("201-load-lora-v1", "210-unload-lora-v1")
  using bad = await serverOf("205-load-lora-missing-path")
  const connect = ({ url }: { readonly url: string }, name: string) => vllmServer({ url, model: "policy", name })
  const transfer = loraTransfer({ dir })
  await transfer.init(adapter(() => 1), [connect(good, "good"), connect(bad, "bad")])
  const report = await transfer.push(1)
  expect(report.servers).toMatchObject([{ name: "good", ok: true }, { name: "bad", ok: false, error: expect.stringContaining("No adapter found") }])
  await transfer.close()

  const alone = loraTransfer({ dir })
  await alone.init(adapter(() => 1), [connect(bad, "bad")])
  await expect(alone.push(1)).rejects.toMatchObject({ code: "transfer_failed" })
  await alone.close()
  expect(existsSync(dir) && (await readdir(dir))).toEqual([])
})
