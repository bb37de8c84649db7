// Which wheel holds the tensor runtime on which platform, with sizes and hashes: data, so that a new version is one edit.
// Wheels are asked for by a fixed interpreter tag (cp312), so the Python that runs pip may be of any version.

/** `cpu` runs everywhere; `gpu` also holds CUDA kernels and loads the CUDA libraries of the machine when it starts. */
export type RuntimeKind = "cpu" | "gpu"

/** One library to unpack. It lands in the runtime's folder under its base name. */
export interface PinnedFile {
  /** Path inside the wheel. */
  readonly entry: string
  readonly bytes: number
}

/** One wheel, fixed to the byte. */
export interface RuntimePin {
  readonly kind: RuntimeKind
  /** `${process.platform}-${process.arch}`. */
  readonly platform: string
  readonly package: string
  readonly version: string
  readonly wheel: {
    readonly python: string
    readonly abi: string
    readonly platformTag: string
    readonly bytes: number
    readonly sha256: string
  }
  /** The library that is opened comes first, the libraries it links to follow. */
  readonly files: readonly [PinnedFile, ...PinnedFile[]]
}

export const pins: readonly RuntimePin[] = [
  {
    kind: "cpu",
    platform: "linux-x64",
    package: "tensorflow-cpu",
    version: "2.21.0",
    wheel: {
      python: "3.12",
      abi: "cp312",
      platformTag: "manylinux_2_27_x86_64",
      bytes: 274_000_871,
      sha256: "dcc8afd32930e42d5296b6ee19078b773706830af4ea97fbe503b9f5e0f820cb",
    },
    files: [
      { entry: "tensorflow/libtensorflow_cc.so.2", bytes: 788_086_608 },
      { entry: "tensorflow/libtensorflow_framework.so.2", bytes: 65_222_328 },
    ],
  },
  {
    kind: "cpu",
    platform: "linux-arm64",
    // tensorflow-cpu has no arm64 wheel; the plain package has no CUDA there.
    package: "tensorflow",
    version: "2.21.0",
    wheel: {
      python: "3.12",
      abi: "cp312",
      platformTag: "manylinux_2_27_aarch64",
      bytes: 281_946_471,
      sha256: "b07d15737406533898e36c7ef7944b1be18e9028dc521b9229952c537bbc5552",
    },
    files: [
      { entry: "tensorflow/libtensorflow_cc.so.2", bytes: 814_885_544 },
      { entry: "tensorflow/libtensorflow_framework.so.2", bytes: 68_176_664 },
    ],
  },
  {
    kind: "gpu",
    platform: "linux-x64",
    package: "tensorflow",
    version: "2.21.0",
    wheel: {
      python: "3.12",
      abi: "cp312",
      platformTag: "manylinux_2_27_x86_64",
      bytes: 572_611_111,
      sha256: "b3b95643c4e70eb925839938fb35cbe142f317ec84af6844ee61513713bb13c0",
    },
    files: [
      { entry: "tensorflow/libtensorflow_cc.so.2", bytes: 1_096_372_272 },
      { entry: "tensorflow/libtensorflow_framework.so.2", bytes: 162_648_808 },
    ],
  },
]

/** The folder name of an installed runtime, such as `tensorflow-cpu-2.21.0-linux-x64`. */
export function runtimeName(pin: RuntimePin): string {
  return `${pin.package}-${pin.version}-${pin.platform}`
}

/** Bytes of the unpacked libraries. */
export function unpackedBytes(pin: RuntimePin): number {
  return pin.files.reduce((sum, file) => sum + file.bytes, 0)
}

/**
 * The most disk space an installation holds at once. pip keeps the wheel twice for a moment (it downloads to a temporary
 * file and copies it); after that the wheel lies beside what is unpacked from it.
 */
export function neededBytes(pin: RuntimePin): number {
  const slackBytes = 64 * 2 ** 20
  return Math.max(2 * pin.wheel.bytes, pin.wheel.bytes + unpackedBytes(pin)) + slackBytes
}
