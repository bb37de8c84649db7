// Which files of a dataset folder hold one split, by the names that the Hugging Face hub uses.
import { CohortError } from "@cohort/errors"

export interface SplitOptions {
  /** Default `train`; a folder with a single data file needs none. */
  readonly split?: string
  /** Folder of one configuration, where a dataset has several. */
  readonly subset?: string
}

const dataFile = /\.(jsonl|json|parquet)$/
const notData = /(^|\/)(\.|dataset_infos?\.json$|dataset_dict\.json$|state\.json$|package\.json$)/

/**
 * The files of one split, in order of name.
 *
 * @param paths relative to the dataset's root, with forward slashes
 * @throws CohortError `dataset_invalid` when no file or more than one set of files fits
 * @example selectFiles(["data/train-0.parquet", "data/test-0.parquet"], {}, "org/name") // ["data/train-0.parquet"]
 */
export function selectFiles(paths: readonly string[], options: SplitOptions, name: string): readonly string[] {
  const split = options.split ?? "train"
  const all = paths.filter((path) => dataFile.test(path) && !notData.test(path)).toSorted()
  const candidates = options.subset === undefined ? all : all.filter((path) => path.split("/").slice(0, -1).includes(options.subset ?? ""))
  const named = candidates.filter((path) => path.split("/").some((part) => isOfSplit(part, split)))
  const [only] = candidates
  const chosen = named.length > 0 || options.split !== undefined || candidates.length !== 1 || only === undefined ? named : [only]

  const [first] = chosen
  if (first === undefined) {
    refuse(name, `no file for split ${split}${options.subset === undefined ? "" : ` of subset ${options.subset}`}`, all)
  }
  if (chosen.some((path) => folderOf(path) !== folderOf(first))) refuse(name, `split ${split} is in more than one folder`, chosen, "Name one of them as subset.")
  if (chosen.some((path) => extensionOf(path) !== extensionOf(first))) refuse(name, `split ${split} is there in more than one format`, chosen)
  return chosen
}

// "train", "train.jsonl", "train-00000-of-00002.parquet", "train_0.jsonl"
function isOfSplit(part: string, split: string): boolean {
  return part === split || (part.startsWith(split) && /^[-_.]/.test(part.slice(split.length)))
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1)
}

function extensionOf(path: string): string {
  return path.slice(path.lastIndexOf("."))
}

function refuse(name: string, message: string, found: readonly string[], hint = "Name the split, or the file itself."): never {
  const list = found.slice(0, 10).join(", ") + (found.length > 10 ? ` and ${found.length - 10} more` : "")
  throw new CohortError("dataset_invalid", `${name}: ${message}; data files found: ${list || "none"}`, { hint })
}
