// The committed tokenizer folders, the answers of the Python libraries, and folders made up on the spot.
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { isCohortError, type CohortError } from "@cohort/errors"
import type { Json, Message } from "@cohort/env"

const fixtures = join(import.meta.dir, "../fixtures")
export const charFolder = join(fixtures, "char")
export const bpeFolder = join(fixtures, "bpe")

type ChatArgs = { readonly messages: readonly Message[]; readonly tools?: readonly Json[]; readonly add_generation_prompt: boolean; readonly enable_thinking?: boolean }

interface FolderAnswers {
  readonly encode: readonly (readonly [text: string, ids: number[]])[]
  readonly decode: readonly (readonly [ids: number[], all: string, withoutSpecial: string])[]
  readonly chats: readonly (readonly [ChatArgs, text: string, ids: number[]])[]
  readonly eos: number
  readonly pad: number
  readonly size: number
}

interface SmallAnswers {
  readonly json: Readonly<Record<string, Json>>
  readonly cases: readonly (readonly [text: string, withSpecial: number[], plain: number[]])[]
}

interface Parity {
  readonly char: FolderAnswers
  readonly bpe: FolderAnswers
  readonly bos: SmallAnswers
  readonly ignoreMerges: SmallAnswers
  readonly usesMerges: SmallAnswers
  readonly templates: readonly (readonly [source: string, values: Record<string, unknown>, { text?: string; error?: string }])[]
}

/** Made by fixtures/make-fixtures.py. */
export const parity = JSON.parse(readFileSync(join(fixtures, "parity.json"), "utf8")) as Parity

export interface TempFolder extends Disposable {
  readonly path: string
}

/** A folder with the given files; objects are written as JSON. */
export function folderOf(files: Readonly<Record<string, string | object>>): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "cohort-tokenizer-"))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), typeof content === "string" ? content : JSON.stringify(content))
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
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
