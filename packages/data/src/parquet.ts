// Parquet, one row group at a time. Reader and decompressors are loaded on first use.
import { CohortError, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import type { Compressors } from "hyparquet"
import type { RawRow } from "./raw-row.ts"
import { toJson } from "./to-json.ts"

/** A file that is read in pieces. Offsets are bytes. */
export interface ByteFile {
  readonly byteLength: number
  slice(start: number, end?: number): Promise<ArrayBuffer>
}

/**
 * Rows of a parquet file, their values made JSON.
 *
 * @param columns to read; all when undefined
 * @throws CohortError `dataset_invalid` for a damaged file, an unknown column, a codec that is not supported
 */
export async function* readParquet(
  file: ByteFile,
  name: string,
  columns?: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<RawRow> {
  const [{ parquetMetadataAsync, parquetReadObjects, parquetSchema }, compressors] = await Promise.all([import("hyparquet"), loadCompressors()])
  try {
    const metadata = await parquetMetadataAsync(file)
    checkColumns(
      parquetSchema(metadata).children.map((child) => child.element.name),
      columns,
      name,
    )
    let rowStart = 0
    for (const group of metadata.row_groups) {
      if (signal?.aborted) throw toCohortError(signal.reason, "aborted", name)
      const rowEnd = rowStart + Number(group.num_rows)
      const rows = await parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd, ...(columns && { columns: [...columns] }) })
      for (const [i, row] of rows.entries()) {
        const where = `${name} row ${rowStart + i + 1}`
        yield { value: toJson(row, where), where }
      }
      rowStart = rowEnd
    }
  } catch (error) {
    if (isCohortError(error)) throw error
    throw new CohortError("dataset_invalid", `${name}: ${messageOf(error)}`, {
      hint: "The file is damaged, or uses a codec other than snappy, gzip, brotli, zstd and lz4.",
      cause: error,
    })
  }
}

// A page of nulls only has no bytes, which LZ4 writes as one empty token; hyparquet-compressors 1.1.2 cannot read that.
async function loadCompressors(): Promise<Compressors> {
  const { compressors } = await import("hyparquet-compressors")
  const { LZ4_RAW: lz4 } = compressors
  return lz4 === undefined ? compressors : { ...compressors, LZ4_RAW: (input, length) => (length === 0 ? new Uint8Array(0) : lz4(input, length)) }
}

function checkColumns(found: readonly string[], wanted: readonly string[] | undefined, name: string): void {
  const missing = (wanted ?? []).filter((column) => !found.includes(column))
  if (missing.length > 0) {
    throw new CohortError("dataset_invalid", `${name}: column ${missing.join(", ")} missing; found: ${found.join(", ")}`)
  }
}
