// `organisation/name[@revision]`: how configs and commands name what is on the hub.

const pattern = /^([\w-][\w.-]*\/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?$/

/**
 * The parts of a name on the hub; undefined for what cannot be one, such as an absolute path.
 *
 * @example
 * parseHubName("Qwen/Qwen3-0.6B@main") // { name: "Qwen/Qwen3-0.6B", revision: "main" }
 */
export function parseHubName(text: string): { readonly name: string; readonly revision: string } | undefined {
  const [, name, revision = "main"] = pattern.exec(text) ?? []
  return name === undefined || text.includes("..") ? undefined : { name, revision }
}
