// Simulates a range of seeds and prints one JSON line per seed: `bun test/simulation/main.ts FIRST COUNT [BUG]`.
import { type Bug, bugs } from "./bug.ts"
import { simulate } from "./simulate.ts"

const [first = "0", count = "1", bug] = process.argv.slice(2)
if (bug !== undefined && !(bug in bugs)) throw new Error(`${bug} is none of ${Object.keys(bugs).join(", ")}`)
for (let seed = Number(first); seed < Number(first) + Number(count); seed++)
  process.stdout.write(`${JSON.stringify(await simulate(seed, bug as Bug | undefined))}\n`)
