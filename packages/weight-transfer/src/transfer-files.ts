// The file system calls that transfers make, so that a full disk and a broken rename can be tried out.
import { mkdir, readdir, rename, rm, statfs, writeFile } from "node:fs/promises"

export interface TransferFiles {
  mkdir(path: string, options: { readonly recursive: boolean }): Promise<unknown>
  readdir(path: string): Promise<string[]>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { readonly recursive: boolean; readonly force: boolean }): Promise<void>
  writeFile(path: string, data: string | Uint8Array): Promise<void>
  /** Room on the file system of a folder. */
  statfs(path: string): Promise<{ readonly bavail: number; readonly bsize: number }>
}

export const nodeFiles: TransferFiles = {
  mkdir,
  readdir,
  rename,
  rm,
  writeFile: (path, data) => writeFile(path, data),
  statfs: (path) => statfs(path),
}
