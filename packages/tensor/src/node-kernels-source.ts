// What we take of tfjs's node package: the backend class and, as a side effect, the kernels. Entry of the bundle that build.ts makes.
import "@tensorflow/tfjs-node-gpu/dist/register_all_kernels"
export { NodeJSKernelBackend } from "@tensorflow/tfjs-node-gpu/dist/nodejs_kernel_backend"
