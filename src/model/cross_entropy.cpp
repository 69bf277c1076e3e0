#include "cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rows.hpp"

// Shapes: c tokens of the chunk, v rows of this rank's part of the vocabulary.
namespace llmtrain {
namespace {

double sum_in_order(const std::vector<double>& losses) {
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return sum;
}

double whole_vocabulary(const at::Tensor& logits,
                        const std::int64_t* labels,
                        const at::Tensor& grad,
                        double seed) {
  const std::int64_t vocab = logits.size(1);
  std::vector<double> losses(static_cast<std::size_t>(logits.size(0)), 0.0);
  const auto run = [&]<class T>(T) {
    for_rows(logits.size(0), vocab, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        row_kernels<T>().cross_entropy(pointer<Acc<T>>(logits) + row * vocab,
                                       labels + row,
                                       grad.defined() ? pointer<T>(grad) + row * vocab : nullptr,
                                       1,
                                       vocab,
                                       static_cast<Acc<T>>(seed),
                                       &losses[static_cast<std::size_t>(row)]);
    });
  };
  dispatch_rows(grad.defined() ? grad : logits, run);
  return sum_in_order(losses);
}

// Softmax denominators of a token: sum of exp(logit - largest).
struct TokenSums {
  double largest = -std::numeric_limits<double>::infinity();
  double exponentials = 0.0;
  double at_label = 0.0;
};

// What one rank knows of every token of the chunk. [c, 3] fp64
at::Tensor own_parts(const at::Tensor& logits, const std::vector<std::int64_t>& own_labels) {
  const std::int64_t width = logits.size(1);
  at::Tensor parts = empty_host({logits.size(0), 3}, DType::kFp64);  // [c, 3]
  dispatch_rows(logits, [&]<class T>(T) {
    for_rows(logits.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      row_kernels<T>().cross_entropy_parts(pointer<Acc<T>>(logits) + begin * width,
                                           own_labels.data() + begin,
                                           parts.data_ptr<double>() + begin * 3,
                                           end - begin,
                                           width);
    });
  });
  return parts;
}

// In rank order, so that every rank gets the same bits.
std::vector<TokenSums> merge(const at::Tensor& gathered, std::int64_t tokens, int ranks) {
  const double* const all = gathered.data_ptr<double>();
  std::vector<TokenSums> sums(static_cast<std::size_t>(tokens));
  for (std::int64_t token = 0; token < tokens; ++token) {
    TokenSums& sum = sums[static_cast<std::size_t>(token)];
    for (int rank = 0; rank < ranks; ++rank)
      sum.largest = std::max(sum.largest, all[(rank * tokens + token) * 3]);
    for (int rank = 0; rank < ranks; ++rank) {
      const double* const part = all + (rank * tokens + token) * 3;
      sum.exponentials += part[1] * std::exp(part[0] - sum.largest);
      sum.at_label += part[2];
    }
  }
  return sums;
}

void write_gradient(const at::Tensor& logits,
                    const std::int64_t* labels,
                    const std::vector<std::int64_t>& own_labels,
                    const std::vector<TokenSums>& sums,
                    const at::Tensor& grad,
                    double seed) {
  const std::int64_t width = logits.size(1);
  dispatch_rows(grad, [&]<class T>(T) {
    std::vector<Acc<T>> largest(sums.size());
    std::vector<Acc<T>> scale(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      largest[i] = static_cast<Acc<T>>(sums[i].largest);
      scale[i] = labels[i] < 0 ? Acc<T>(0) : static_cast<Acc<T>>(seed / sums[i].exponentials);
    }
    for_rows(logits.size(0), width, [&](std::int64_t begin, std::int64_t end) {
      row_kernels<T>().cross_entropy_gradient(pointer<Acc<T>>(logits) + begin * width,
                                              own_labels.data() + begin,
                                              largest.data() + begin,
                                              scale.data() + begin,
                                              pointer<T>(grad) + begin * width,
                                              end - begin,
                                              width,
                                              static_cast<Acc<T>>(seed));
    });
  });
}

}  // namespace

double cross_entropy(const at::Tensor& logits,
                     const std::int64_t* labels,
                     const VocabularyPart& vocabulary,
                     const TensorRegion& region,
                     const at::Tensor& grad,
                     double seed) {
  if (region.is_alone()) return whole_vocabulary(logits, labels, grad, seed);
  const std::int64_t tokens = logits.size(0);
  std::vector<std::int64_t> own_labels(static_cast<std::size_t>(tokens));
  std::transform(labels, labels + tokens, own_labels.begin(), [&](std::int64_t label) {
    return vocabulary.own_row(label);
  });
  const at::Tensor parts = region.gathered(own_parts(logits, own_labels));  // [ranks, c, 3]
  std::vector<TokenSums> sums = merge(parts, tokens, region.size());
  if (region.plant() == Plant::kPaddingRow)
    for (TokenSums& sum : sums) sum.exponentials += std::exp(-sum.largest);
  if (grad.defined()) write_gradient(logits, labels, own_labels, sums, grad, seed);
  std::vector<double> losses;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (labels[i] >= 0)
      losses.push_back(std::log(sums[i].exponentials) - (sums[i].at_label - sums[i].largest));
  return sum_in_order(losses);
}

}  // namespace llmtrain
