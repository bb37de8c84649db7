// How configs name a part of a plugin: "reward-math", "reward-math/equivalence", "@scope/pkg/part", "./mine.ts#length".
import { CohortError } from "@cohort/errors"

export type Reference =
  | { readonly kind: "package"; readonly text: string; readonly name: string; readonly part: string | undefined }
  | { readonly kind: "path"; readonly text: string; readonly path: string; readonly part: string | undefined }

/** True for what is read as a module path: it starts with ".", "/" or "file:". */
export function isPath(text: string): boolean {
  return /^(\.{1,2}\/|\/|file:)/.test(text)
}

/**
 * Splits a reference into the module and the part of it.
 *
 * @throws CohortError `plugin_invalid` for text that is no reference.
 * @example parseReference("@cohort/reward-math/equivalence") // name "@cohort/reward-math", part "equivalence"
 */
export function parseReference(text: string): Reference {
  if (isPath(text)) {
    const hash = text.lastIndexOf("#")
    const path = hash === -1 ? text : text.slice(0, hash)
    const part = hash === -1 ? undefined : text.slice(hash + 1)
    if (part === "") throw malformed(text, "nothing follows the #")
    return { kind: "path", text, path, part }
  }
  const segments = text.split("/")
  const nameLength = text.startsWith("@") ? 2 : 1
  if (text.trim() !== text || segments.some((segment) => !/^[@\w.-]+$/.test(segment))) throw malformed(text, "it has characters or empty segments that no name has")
  if (segments.length < nameLength) throw malformed(text, "a scope needs a package name after it")
  if (segments.length > nameLength + 1) throw malformed(text, "it has more parts than package/part")
  return { kind: "package", text, name: segments.slice(0, nameLength).join("/"), part: segments[nameLength] }
}

/** Packages that a name may mean. `first` are looked for together; `last` only when none of them is there. */
export function packageNames(name: string): { readonly first: readonly string[]; readonly last: readonly string[] } {
  if (name.startsWith("@") || name.startsWith("cohort-plugin-")) return { first: [name], last: [] }
  return { first: [`@cohort/${name}`, `cohort-plugin-${name}`], last: [name] }
}

function malformed(text: string, why: string): CohortError {
  return new CohortError("plugin_invalid", `${JSON.stringify(text)} names no plugin: ${why}`, {
    hint: 'Write "name", "name/part", "@scope/package", "@scope/package/part" or "./file.ts#export".',
    details: { reference: text },
  })
}
