// Reads the few gauges a trainer needs out of Prometheus text.

/**
 * Values of one metric over all its label sets (one per engine of a data-parallel server).
 *
 * @example
 * gauges('vllm:num_requests_running{engine="0"} 3.0', "vllm:num_requests_running") // [3]
 */
export function gauges(text: string, metric: string): number[] {
  const values: number[] = []
  for (const line of text.split("\n")) {
    if (!line.startsWith(metric)) continue
    const rest = line.slice(metric.length)
    if (rest[0] !== "{" && rest[0] !== " ") continue
    // A label value may hold spaces and braces, so the number is what follows the last brace.
    const value = Number(rest.slice(rest.lastIndexOf("}") + 1).trim().split(" ")[0])
    if (Number.isFinite(value)) values.push(value)
  }
  return values
}

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
export const largest = (values: readonly number[]): number => values.reduce((most, value) => Math.max(most, value), 0)
