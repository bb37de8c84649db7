// The folder that new weights come from, looked at before anything is touched.
import { readdir } from "node:fs/promises"

import { CohortError } from "@cohort/errors"

/** Throws `file_invalid` for a folder that cannot be read or holds no safetensors. */
export async function checkWeightsFolder(folder: string): Promise<void> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new CohortError("file_invalid", `The weights folder ${folder} cannot be read.`, { cause, hint: "Write the folder completely before asking for it; the server must see the same file system." })
  })
  if (!names.some((name) => name.endsWith(".safetensors")))
    throw new CohortError("file_invalid", `The folder ${folder} holds no .safetensors file.`, { hint: "Give a model folder in Hugging Face layout." })
}
