// Attributes of TensorFlow ops that `RawOps` has no method for; the numbers are those of tfjs's addon.

export const attributes = {
  string: (name: string, value: string) => ({ name, type: 0 as const, value }),
  int: (name: string, value: number) => ({ name, type: 1 as const, value }),
  bool: (name: string, value: boolean) => ({ name, type: 3 as const, value }),
  type: (name: string, value: number) => ({ name, type: 4 as const, value }),
  shape: (name: string, value: readonly number[]) => ({ name, type: 5 as const, value }),
}
