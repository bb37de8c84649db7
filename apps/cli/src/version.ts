// The version of this package, for `--version`.

/** As package.json says; it lies beside `src` and beside `dist`. */
export async function packageVersion(): Promise<string> {
  const manifest: unknown = await Bun.file(new URL("../package.json", import.meta.url)).json()
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown"
}
