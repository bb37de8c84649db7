// Links of Markdown files: those inside the repository must lead somewhere, headings included.
import { dirname, join } from "node:path/posix"

export interface Page {
  /** From the root of the repository. */
  readonly path: string
  readonly text: string
}

const fence = /^(```|~~~)[\s\S]*?^\1/gm

/** The anchor of a heading as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-")
}

const anchorsOf = (text: string): ReadonlySet<string> => new Set([...text.replace(fence, "").matchAll(/^#{1,6}\s+(.+)$/gm)].map((match) => anchorOf(match[1]!)))

/** Links that lead nowhere, as sentences. `exists` takes paths from the root of the repository. */
export function brokenLinks(pages: readonly Page[], exists: (path: string) => boolean): readonly string[] {
  const anchors = new Map(pages.map(({ path, text }) => [path, anchorsOf(text)]))
  return pages.flatMap(({ path, text }) =>
    [...text.replace(fence, "").matchAll(/\]\(([^)\s]+)\)/g)].flatMap((match) => {
      const link = match[1]!
      if (/^[a-z]+:/i.test(link)) return []
      const [file, anchor] = link.split("#")
      const target = file === "" ? path : join(dirname(path), file!).replace(/\/$/, "")
      if (!exists(target)) return [`${path} links to ${link}, which does not exist`]
      if (anchor === undefined) return []
      // GitHub shows the README of a folder.
      return (anchors.get(target) ?? anchors.get(`${target}/README.md`))?.has(anchor) === true ? [] : [`${path} links to ${link}, but there is no such heading`]
    }),
  )
}
