#include <cmath>

#include "llmtrain/model/sequence_attention.hpp"
#include "llmtrain/tensor/gradient_node.hpp"

#include "block.hpp"
#include "rows.hpp"

// Shapes: b sequences, s rows of each, n query heads, k key/value heads, d head width; a row of qkv is
// [q (n d), k (k d), v (k d)].
namespace llmtrain {
namespace {

QueryKeyValue split_heads(const at::Tensor& qkv, const BlockWeights& w, const SequenceLayout& layout) {
  const at::Tensor heads =
      qkv.view({layout.batch, layout.length, w.heads + 2 * w.kv_heads, w.head_dim}).transpose(1, 2);
  return {.q = heads.narrow(1, 0, w.heads),
          .k = heads.narrow(1, w.heads, w.kv_heads),
          .v = heads.narrow(1, w.heads + w.kv_heads, w.kv_heads)};
}

// Rotates the first n + k heads of every row in place.
void rotate_rows(const at::Tensor& qkv,
                 const BlockWeights& w,
                 const SequenceLayout& layout,
                 const RopeTables& rope,
                 int sign) {
  if (!rope.defined()) return;
  const std::int64_t width = qkv.size(1);
  const std::int64_t pairs = w.head_dim / 2;
  dispatch_rows(qkv, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    for_rows(qkv.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t at = layout.position_of(row) * pairs;
        kernels.rotate(pointer<T>(qkv) + row * width,
                       w.heads + w.kv_heads,
                       w.head_dim,
                       pointer<Acc<T>>(rope.cosines) + at,
                       pointer<Acc<T>>(rope.sines) + at,
                       static_cast<Acc<T>>(sign));
      }
    });
  });
}

// y = RMS norm of every query and key head of x, values copied; returns rstd [b s, n + k].
at::Tensor norm_heads(const at::Tensor& x, const BlockWeights& w, at::Tensor& y) {
  const std::int64_t width = x.size(1);
  const std::int64_t q_width = w.heads * w.head_dim;
  const std::int64_t heads = w.heads + w.kv_heads;
  at::Tensor rstd = empty_host({x.size(0), heads}, accumulation_type(dtype_of(x.scalar_type())));
  dispatch_rows(x, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    for_rows(x.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* in = pointer<T>(x) + row * width;
        T* out = pointer<T>(y) + row * width;
        auto* scale = pointer<Acc<T>>(rstd) + row * heads;
        kernels.rms_norm(
            in, pointer<T>(w.q_norm.weight), out, scale, w.heads, w.head_dim, w.head_dim, w.qk_eps);
        kernels.rms_norm(in + q_width,
                         pointer<T>(w.k_norm.weight),
                         out + q_width,
                         scale + w.heads,
                         w.kv_heads,
                         w.head_dim,
                         w.head_dim,
                         w.qk_eps);
        std::copy(in + heads * w.head_dim, in + width, out + heads * w.head_dim);
      }
    });
  });
  return rstd;
}

// In place over the gradient of the normed heads.
void norm_heads_backward(at::Tensor& grad,
                         const at::Tensor& x,
                         const at::Tensor& rstd,
                         const BlockWeights& w,
                         const GradientContext& context) {
  const std::int64_t width = x.size(1);
  const std::int64_t d = w.head_dim;
  const std::int64_t heads = w.heads + w.kv_heads;
  dispatch_rows(x, [&]<class T>(T) {
    const auto& kernels = row_kernels<T>();
    ThreadSums<Acc<T>> dq_norm(d);
    ThreadSums<Acc<T>> dk_norm(d);
    for_rows(x.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* g = pointer<T>(grad) + row * width;
        const T* in = pointer<T>(x) + row * width;
        const auto* scale = pointer<Acc<T>>(rstd) + row * heads;
        kernels.rms_norm_backward(
            g, d, in, d, pointer<T>(w.q_norm.weight), scale, g, d, dq_norm.mine(), w.heads, d, false);
        g += w.heads * d;
        in += w.heads * d;
        kernels.rms_norm_backward(g,
                                  d,
                                  in,
                                  d,
                                  pointer<T>(w.k_norm.weight),
                                  scale + w.heads,
                                  g,
                                  d,
                                  dk_norm.mine(),
                                  w.kv_heads,
                                  d,
                                  false);
      }
    });
    context.run([dq_norm = std::move(dq_norm), dk_norm = std::move(dk_norm), &w] {
      dq_norm.add_to(pointer<Acc<T>>(w.q_norm.grad));
      dk_norm.add_to(pointer<Acc<T>>(w.k_norm.grad));
    });
  });
}

at::Tensor rows_of(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), heads.size(1) * heads.size(3)});
}

// Appends to the cache and attends over everything seen so far. [b, n, s, d]
at::Tensor attend_cached(const QueryKeyValue& views,
                         double scale,
                         KvCache::Layer& cache,
                         const SequenceLayout& layout) {
  const std::int64_t seen = layout.position_of(0);
  cache.keys.narrow(2, seen, layout.length).copy_(views.k);
  cache.values.narrow(2, seen, layout.length).copy_(views.v);
  const at::Tensor keys = cache.keys.narrow(2, 0, seen + layout.length);      // [b, k, u, d]
  const at::Tensor values = cache.values.narrow(2, 0, seen + layout.length);  // [b, k, u, d]
  return attention(views.q, keys, values, true, scale).out;
}

}  // namespace

at::Tensor attention_core(const at::Tensor& qkv,
                          const BlockWeights& w,
                          const SequenceLayout& layout,
                          const RopeTables& rope,
                          const GradientContext& context,
                          bool may_overwrite,
                          KvCache::Layer* cache) {
  at::Tensor rotated = qkv.detach();  // [b s, (n + 2k) d]
  at::Tensor raw;                     // [b s, (n + 2k) d] with qk-norm: what it was computed from
  at::Tensor rstd;                    // [b s, n + k]
  if (w.q_norm.defined()) {
    raw = rotated;
    rotated = empty_host(raw.sizes(), dtype_of(raw.scalar_type()));
    rstd = norm_heads(raw, w, rotated);
  } else if (!may_overwrite && rope.defined()) {
    rotated = rotated.clone();
  }
  rotate_rows(rotated, w, layout, rope, 1);
  const QueryKeyValue views = split_heads(rotated, w, layout);
  const double scale = 1.0 / std::sqrt(static_cast<double>(w.head_dim));
  if (cache) return rows_of(attend_cached(views, scale, *cache, layout));  // [b s, n d]

  const Attended attended = causal_attention(views, scale, context.sequence, layout.documents);
  at::Tensor out = rows_of(attended.out).detach();  // [b s, n d]
  if (!wants_gradient({qkv})) return out;

  attach_backward(
      out, {qkv}, "Attention", [=, back = attended.backward, &w, &rope, &context](const at::Tensor& dy) {
        const at::Tensor d_out = dy.contiguous()
                                     .view({layout.batch, layout.length, w.heads, w.head_dim})
                                     .transpose(1, 2);  // [b, n, s, d]
        const AttentionGradients grads = back(d_out);
        at::Tensor d_qkv = empty_host({dy.size(0), (w.heads + 2 * w.kv_heads) * w.head_dim},
                                      dtype_of(dy.scalar_type()));  // [b s, (n + 2k) d]
        const QueryKeyValue to = split_heads(d_qkv, w, layout);
        to.q.copy_(grads.dq);
        to.k.copy_(grads.dk);
        to.v.copy_(grads.dv);
        rotate_rows(d_qkv, w, layout, rope, -1);
        if (rstd.defined()) norm_heads_backward(d_qkv, raw, rstd, w, context);
        return std::vector<at::Tensor>{d_qkv};
      });
  return out;
}

}  // namespace llmtrain
