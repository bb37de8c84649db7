// Decoding streams all weights at each token, and on pages of 4 KiB a good part of that time goes into address translation. The C
// library asks the kernel for pages of 2 MiB only when a process starts with this tunable.

type Environment = Readonly<Record<string, string | undefined>>

const name = "glibc.malloc.hugetlb"

/**
 * The environment of a child that may have huge pages where Linux gives them on request (`madvise`, the usual setting). What the user
 * chose stays; other C libraries and systems ignore it.
 *
 * @example
 * Bun.spawn(command, { env: withHugePages(process.env) })
 */
export function withHugePages(env: Environment): Environment {
  const given = env["GLIBC_TUNABLES"] ?? ""
  if (given.includes(`${name}=`)) return env
  return { ...env, GLIBC_TUNABLES: [given, `${name}=1`].filter((part) => part !== "").join(":") }
}
