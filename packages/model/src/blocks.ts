// The building blocks of a decoder layer in tfjs-core ops, with hand-written gradients where autodiff would save or move too much.
// Shapes: B rows, T tokens, N = B*T, D hidden, H query heads, K key-value heads, G = H/K, h head size, F intermediate size.
import { add, cast, concat, customGrad, cos, type GradSaveFunc, less, logicalAnd, matMul, mean, mul, neg, range, reshape, rsqrt, sigmoid, sin, slice, softmax, square, sub, sum, type Tensor, tidy, transpose, where, lessEqual, scalar } from "@tensorflow/tfjs-core"

/** Concatenates [q | k | v] gradients instead of padding each to full width, which is what autodiff of slices does. */
const splitColumns = (sizes: readonly number[]) =>
  (x_NC: Tensor): Tensor[] => {
    const rows = x_NC.shape[0]!
    let begin = 0
    return sizes.map((size) => {
      const part = slice(x_NC, [0, begin], [rows, size])
      begin += size
      return part
    })
  }

/**
 * y = x / rms(x) * gain over the last axis (RMSNorm, arXiv:1910.07467, eq. 4).
 * Saves x, the reciprocal rms and the gain; the gradient is formed in two reductions.
 */
export function rmsNorm(x: Tensor, gain: Tensor, epsilon: number): Tensor {
  const op = customGrad((...args) => {
    const [input, weight, save] = args as unknown as [Tensor, Tensor, GradSaveFunc]
    const reciprocal = rsqrt(add(mean(square(input), -1, true), epsilon))
    save([input, weight, reciprocal])
    return {
      value: mul(mul(input, reciprocal), weight),
      gradFunc: (dy: Tensor, saved: Tensor[]) => {
        const [xs, w, r] = saved as [Tensor, Tensor, Tensor]
        const normal = mul(xs, r)
        const scaled = mul(dy, w)
        const dx = mul(r, sub(scaled, mul(normal, mean(mul(scaled, normal), -1, true))))
        const leading = Array.from({ length: xs.rank - 1 }, (_, axis) => axis)
        return [dx, sum(mul(dy, normal), leading)]
      },
    }
  })
  return op(x, gain)
}

/** Angles of each position: [cos, sin], each [B, 1, T, h/2]. */
export function rotaryTables(positions_BT: Tensor, inverseFrequencies: Tensor): [Tensor, Tensor] {
  const [rows, length] = positions_BT.shape as [number, number]
  const angles = mul(reshape(cast(positions_BT, "float32"), [rows, 1, length, 1]), reshape(inverseFrequencies, [1, 1, 1, -1]))
  return [cos(angles), sin(angles)]
}

/** Rotates halves of the last axis by the position's angles; its gradient is the rotation back. */
export function rotate(x_BHTh: Tensor, cosine: Tensor, sine: Tensor): Tensor {
  const apply = (x: Tensor, c: Tensor, s: Tensor): Tensor => {
    const half = x.shape[3]! / 2
    const size = [...x.shape.slice(0, 3), half]
    const first = slice(x, [0, 0, 0, 0], size)
    const second = slice(x, [0, 0, 0, half], size)
    return concat([sub(mul(first, c), mul(second, s)), add(mul(second, c), mul(first, s))], 3)
  }
  const op = customGrad((...args) => {
    const [x, save] = args as unknown as [Tensor, GradSaveFunc]
    // Saved, since autodiff frees what the forward pass made and did not save.
    save([cosine, sine])
    return { value: apply(x, cosine, sine), gradFunc: (dy: Tensor, saved: Tensor[]) => [apply(dy, saved[0]!, neg(saved[1]!))] }
  })
  return op(x_BHTh)
}

/** Additive causal mask, [1, 1, T, T]: 0 where column <= row, else -1e9 (an infinity would turn into NaN in the gradient). */
export function causalMask(length: number): Tensor {
  return tidy(() => {
    const index = range(0, length, 1, "int32")
    return where(lessEqual(reshape(index, [1, 1, 1, length]), reshape(index, [1, 1, length, 1])), scalar(0), scalar(-1e9))
  })
}

/**
 * Additive mask of rows that hold several samples, [B, 1, T, T]: 0 where key <= query < visibleUntil[key]. A sample's tokens end where the sample does;
 * those of a start that several samples share end where the last of them does.
 */
export function packedMask(visibleUntil_BT: Tensor): Tensor {
  return tidy(() => {
    const [rows, length] = visibleUntil_BT.shape as [number, number]
    const index = range(0, length, 1, "int32")
    const query = reshape(index, [1, 1, length, 1])
    const causal = lessEqual(reshape(index, [1, 1, 1, length]), query)
    const visible = less(query, cast(reshape(visibleUntil_BT, [rows, 1, 1, length]), "int32"))
    return where(logicalAnd(causal, visible), scalar(0), scalar(-1e9))
  })
}

/**
 * Softmax attention with grouped key-value heads. q [B, H, T, h], k and v [B, K, T, h], mask [1 or B, 1, T, T]; returns [B, H, T, h].
 * The gradient takes the sum over keys of weight times its gradient from the output, over h instead of T (FlashAttention-2, arXiv:2307.08691, section 3.1).
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor): Tensor {
  const [rows, heads, length, size] = q.shape as [number, number, number, number]
  const kvHeads = k.shape[1]!
  const scale = 1 / Math.sqrt(size)
  // The query heads that share a key head become rows of one product.
  const grouped = (x: Tensor, last: number): Tensor => reshape(x, [rows, kvHeads, (heads / kvHeads) * length, last])
  const op = customGrad((...args) => {
    const [queries, keys, values, save] = args as unknown as [Tensor, Tensor, Tensor, GradSaveFunc]
    const scaled = grouped(mul(queries, scale), size)
    const scores = reshape(matMul(scaled, keys, false, true), [rows, heads, length, length])
    const weights = grouped(softmax(add(scores, mask)), length)
    const mixed = matMul(weights, values)
    save([scaled, keys, values, weights, mixed])
    return {
      value: reshape(mixed, [rows, heads, length, size]),
      gradFunc: (dy: Tensor, saved: Tensor[]) => {
        const [s, ks, vs, p, o] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor]
        const d = grouped(dy, size)
        const dScores = mul(p, sub(matMul(d, vs, false, true), sum(mul(d, o), -1, true)))
        return [reshape(mul(matMul(dScores, ks), scale), queries.shape), matMul(dScores, s, true, false), matMul(p, d, true, false)]
      },
    }
  })
  return op(q, k, v)
}

/** silu(gate) * up for a fused projection [N, 2F] = [gate | up] (SwiGLU, arXiv:2002.05202); returns [N, F]. */
export function swiglu(gateUp_N2F: Tensor): Tensor {
  const op = customGrad((...args) => {
    const [fused, save] = args as unknown as [Tensor, GradSaveFunc]
    const width = fused.shape[1]! / 2
    const [gate, up] = splitColumns([width, width])(fused) as [Tensor, Tensor]
    save([fused])
    return {
      value: mul(mul(gate, sigmoid(gate)), up),
      gradFunc: (dy: Tensor, saved: Tensor[]) => {
        const [g, u] = splitColumns([width, width])(saved[0]!) as [Tensor, Tensor]
        const s = sigmoid(g)
        const silu = mul(g, s)
        const slope = mul(s, add(1, mul(g, sub(1, s))))
        return [concat([mul(mul(dy, u), slope), mul(dy, silu)], 1)]
      },
    }
  })
  return op(gateUp_N2F)
}

/** Splits fused projections [N, (H + 2K) h] into q [B, H, T, h], k and v [B, K, T, h]. */
export function splitHeads(qkv_NC: Tensor, rows: number, heads: number, kvHeads: number, size: number): [Tensor, Tensor, Tensor] {
  const length = qkv_NC.shape[0]! / rows
  const counts = [heads, kvHeads, kvHeads]
  const begin = [0, heads, heads + kvHeads]
  const total = heads + 2 * kvHeads
  // One transpose to [B, H+2K, T, h]; parts are then runs of the head axis.
  const turned = customGrad((...args) => {
    const [x] = args as unknown as [Tensor]
    return {
      value: transpose(reshape(x, [rows, length, total, size]), [0, 2, 1, 3]),
      gradFunc: (dy: Tensor) => [reshape(transpose(dy, [0, 2, 1, 3]), [rows * length, total * size])],
    }
  })(qkv_NC)
  return counts.map((count, i) => slice(turned, [0, begin[i]!, 0, 0], [rows, count, length, size])) as [Tensor, Tensor, Tensor]
}

/** [B, H, T, h] back to [N, H*h]. */
export function mergeHeads(x_BHTh: Tensor): Tensor {
  const [rows, heads, length, size] = x_BHTh.shape as [number, number, number, number]
  return reshape(transpose(x_BHTh, [0, 2, 1, 3]), [rows * length, heads * size])
}

/** x [N, in] times a checkpoint matrix [out, in], plus a bias when there is one: [N, out]. */
export function linear(x: Tensor, weight: Tensor, bias?: Tensor): Tensor {
  const product = matMul(x, weight, false, true)
  return bias === undefined ? product : add(product, bias)
}

