// bf16 on the host: the upper halves of float32 words.

/** float32 values of bf16 words. */
export function fromBfloat16(words: Uint16Array): Float32Array {
  const bits = new Uint32Array(words.length)
  for (let i = 0; i < words.length; i++) bits[i] = words[i]! << 16
  return new Float32Array(bits.buffer)
}

/** bf16 words of float32 values, rounded to nearest even. */
export function toBfloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const out = new Uint16Array(values.length)
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!
    out[i] = (word & 0x7fffffff) > 0x7f800000 ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
  }
  return out
}
