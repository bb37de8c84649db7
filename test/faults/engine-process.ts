// The engine process below this one, found as an administrator would find it.

/** Process ids of engines that this process started, oldest first. */
export function enginePids(): readonly number[] {
  const { stdout } = Bun.spawnSync(["ps", "-A", "-o", "pid=,ppid=,args="])
  return stdout
    .toString()
    .split("\n")
    .flatMap((line) => {
      const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
      return Number(parent) === process.pid && command!.includes("engine/src/process/main") ? [Number(pid)] : []
    })
    .toSorted((a, b) => a - b)
}
