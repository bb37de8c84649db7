// SHA-256 of a file as hex: what `sha256sum` prints and model cards say.

export async function sha256Of(path: string): Promise<string> {
  return new Bun.CryptoHasher("sha256").update(await Bun.file(path).arrayBuffer()).digest("hex")
}
