export { arithmetic, default } from "./plugin.ts"
export { type ArithmeticOptions, arithmeticOptions } from "./options.ts"
export { arithmeticTasks } from "./taskset.ts"
