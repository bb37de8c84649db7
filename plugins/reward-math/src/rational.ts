// Exact numbers of the form factor * sqrt(radicand), both rational: what final answers are compared in.

export interface Rational {
  readonly numerator: bigint
  /** Above 0. */
  readonly denominator: bigint
}

export interface Value {
  readonly factor: Rational
  /** At or above 0. */
  readonly radicand: Rational
}

const one: Rational = { numerator: 1n, denominator: 1n }

/** A fraction; undefined for a zero denominator. Not reduced: comparison multiplies crosswise. */
export function rational(numerator: bigint, denominator: bigint = 1n): Rational | undefined {
  if (denominator === 0n) return undefined
  return denominator < 0n ? { numerator: -numerator, denominator: -denominator } : { numerator, denominator }
}

/** The rational as a value. */
export function valueOf(factor: Rational): Value {
  return { factor, radicand: one }
}

export function times(a: Rational, b: Rational): Rational {
  return { numerator: a.numerator * b.numerator, denominator: a.denominator * b.denominator }
}

export function multiply(a: Value, b: Value): Value {
  return { factor: times(a.factor, b.factor), radicand: times(a.radicand, b.radicand) }
}

/** a / b; undefined where b is 0. */
export function divide(a: Value, b: Value): Value | undefined {
  const factor = rational(b.factor.denominator, b.factor.numerator)
  const radicand = rational(b.radicand.denominator, b.radicand.numerator)
  return factor === undefined || radicand === undefined ? undefined : multiply(a, { factor, radicand })
}

export function negate(a: Value): Value {
  return { ...a, factor: { ...a.factor, numerator: -a.factor.numerator } }
}

/** The square root of a rational; undefined for a negative one, or where the value is a root itself. */
export function squareRoot({ factor, radicand }: Value): Value | undefined {
  if (factor.numerator < 0n || radicand.numerator !== radicand.denominator) return undefined
  return { factor: one, radicand: factor }
}

/** factor * sqrt(radicand) is told by its sign and its square. */
export function sameValue(a: Value, b: Value): boolean {
  const [left, right] = [signedSquare(a), signedSquare(b)]
  return left.numerator * right.denominator === right.numerator * left.denominator
}

function signedSquare({ factor, radicand }: Value): Rational {
  const square = times(times(factor, factor), radicand)
  return factor.numerator < 0n ? { ...square, numerator: -square.numerator } : square
}
