// Writes small zip archives for tests, with the oddities a reader must bear: stored entries, zip64 sizes, a comment.
import { crc32, deflateRawSync } from "node:zlib"

export interface ZipInput {
  readonly name: string
  readonly data: Uint8Array
  readonly method?: 0 | 8
  /** Puts sizes and offset into a zip64 extra field, as writers do past 4 GiB. */
  readonly zip64?: boolean
  /** Replaces the true CRC-32. */
  readonly crc32?: number
  readonly flags?: number
}

export function makeZip(inputs: readonly ZipInput[], options: { readonly comment?: string; readonly zip64End?: boolean } = {}): Buffer {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  let offset = 0
  for (const input of inputs) {
    const name = Buffer.from(input.name)
    const method = input.method ?? 8
    const data = method === 8 ? deflateRawSync(input.data) : Buffer.from(input.data)
    const crc = input.crc32 ?? crc32(input.data)
    const wide = input.zip64 === true
    const head = Buffer.alloc(46)
    head.writeUInt32LE(0x02014b50, 0)
    head.writeUInt16LE(input.flags ?? 0, 8)
    head.writeUInt16LE(method, 10)
    head.writeUInt32LE(crc, 16)
    head.writeUInt32LE(wide ? 0xffffffff : data.length, 20)
    head.writeUInt32LE(wide ? 0xffffffff : input.data.length, 24)
    head.writeUInt16LE(name.length, 28)
    const extra = wide ? zip64Extra([input.data.length, data.length, offset]) : Buffer.alloc(0)
    head.writeUInt16LE(extra.length, 30)
    head.writeUInt32LE(wide ? 0xffffffff : offset, 42)
    central.push(head, name, extra)
    // The local header carries an extra field of another length than the central one, as real archives do.
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt16LE(method, 8)
    local.writeUInt16LE(name.length, 26)
    local.writeUInt16LE(7, 28)
    const localParts = [local, name, Buffer.from([9, 9, 3, 0, 0, 0, 0]), data]
    parts.push(...localParts)
    offset += localParts.reduce((sum, part) => sum + part.length, 0)
  }
  const directory = Buffer.concat(central)
  return Buffer.concat([...parts, directory, endRecords(inputs.length, directory.length, offset, options)])
}

function zip64Extra(values: readonly number[]): Buffer {
  const extra = Buffer.alloc(4 + 8 * values.length)
  extra.writeUInt16LE(1, 0)
  extra.writeUInt16LE(8 * values.length, 2)
  values.forEach((value, index) => extra.writeBigUInt64LE(BigInt(value), 4 + 8 * index))
  return extra
}

function endRecords(count: number, bytes: number, offset: number, options: { readonly comment?: string; readonly zip64End?: boolean }): Buffer {
  const comment = Buffer.from(options.comment ?? "")
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  const wide = options.zip64End === true
  end.writeUInt16LE(wide ? 0xffff : count, 10)
  end.writeUInt32LE(wide ? 0xffffffff : bytes, 12)
  end.writeUInt32LE(wide ? 0xffffffff : offset, 16)
  end.writeUInt16LE(comment.length, 20)
  if (!wide) return Buffer.concat([end, comment])
  const record = Buffer.alloc(56)
  record.writeUInt32LE(0x06064b50, 0)
  record.writeBigUInt64LE(BigInt(count), 32)
  record.writeBigUInt64LE(BigInt(bytes), 40)
  record.writeBigUInt64LE(BigInt(offset), 48)
  const locator = Buffer.alloc(20)
  locator.writeUInt32LE(0x07064b50, 0)
  locator.writeBigUInt64LE(BigInt(offset + bytes), 8)
  return Buffer.concat([record, locator, end, comment])
}
