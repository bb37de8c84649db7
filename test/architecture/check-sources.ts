// The rules about how sources are written, as far as a program can read them.
import { ambient, type Ambient } from "./edges.ts"
import { withoutComments } from "./imports.ts"
import type { Workspace } from "./workspace.ts"

const reExport = /export\s+(?:type\s+)?(?:\{[^}]*\}|\*(?:\s+as\s+\w+)?)\s+from\s+["'][^"']+["'];?/g

/** `index.ts` files that hold more than re-exports. */
export function indexesWithCode(workspaces: readonly Workspace[]): readonly string[] {
  return workspaces.flatMap(({ path, files }) =>
    files
      .filter((file) => file.shipped && /(?:^|\/)index\.ts$/.test(file.path))
      .filter(({ text }) => withoutComments(text).replace(reExport, "").replace(/export\s*\{\s*\};?/, "").trim() !== "")
      .map((file) => `${path}/${file.path} does more than re-export`),
  )
}

/** Uses of clock, chance, environment or network outside the named edges, and edges that no longer need their name. */
export function ambientUses(workspaces: readonly Workspace[], edges: Readonly<Record<string, readonly Ambient[]>>): readonly string[] {
  const unused = new Map(Object.entries(edges).map(([file, uses]) => [file, new Set<Ambient>(uses)]))
  const found = workspaces
    .filter(({ kind }) => kind === "package" || kind === "plugin")
    .flatMap(({ path, files }) =>
      files
        .filter(({ shipped }) => shipped)
        .flatMap((file) => {
          const name = `${path}/${file.path}`
          const code = withoutComments(file.text)
          return (Object.keys(ambient) as Ambient[]).flatMap((use) => {
            const at = code.search(ambient[use])
            if (at < 0) return []
            unused.get(name)?.delete(use)
            if (edges[name]?.includes(use) === true) return []
            return [`${name}:${code.slice(0, at).split("\n").length} reads the ${use} itself; take it as an argument, or name the file in test/architecture/edges.ts`]
          })
        }),
    )
  return [...found, ...[...unused].flatMap(([file, uses]) => [...uses].map((use) => `test/architecture/edges.ts lets ${file} read the ${use}, which it does not`))]
}

const longFile = 400

/** Files over 400 lines whose opening comment does not say `Long because ...`. */
export function longFiles(workspaces: readonly Workspace[]): readonly string[] {
  return workspaces.flatMap(({ path, files }) =>
    files.flatMap(({ path: file, text }) => {
      const lines = text.split("\n").length - 1
      const header = /^(?:#!.*\n)?((?:\/\/.*\n)+|\/\*[\s\S]*?\*\/)/.exec(text)?.[1] ?? ""
      return lines <= longFile || /\blong because\b/i.test(header) ? [] : [`${path}/${file} has ${lines} lines and no "Long because ..." in its opening comment`]
    }),
  )
}

/** Published files that do not open with a comment that says what they are. */
export function filesWithoutOpening(workspaces: readonly Workspace[]): readonly string[] {
  return workspaces.flatMap(({ path, files }) =>
    files
      .filter((file) => file.shipped && !file.path.endsWith("index.ts"))
      .filter(({ text }) => !/^(?:#!.*\n)?\/[/*]/.test(text))
      .map((file) => `${path}/${file.path} does not open with a comment that says what it is`),
  )
}

/** Folders of one machine. A path that a test makes up is told apart by standing nowhere near these. */
const machinePath = /(?<![\w.:}/-])\/(?:work|root|home\/\w+|Users\/\w+|tmp\/\w+)(?=\/)/

/** Lines of text files that name a path of somebody's machine. */
export function machinePaths(files: readonly { readonly path: string; readonly text: string }[]): readonly string[] {
  return files.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, index) => {
      const match = machinePath.exec(line)
      return match === null ? [] : [`${path}:${index + 1} names the machine path ${match[0]}`]
    }),
  )
}
