#include "src/optim/kernels.hpp"

#include <bit>
#include <vector>

#include "llmtrain/core/half_floats.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain::kernels;

namespace {

constexpr std::int64_t kCount = 1003;  // every vector width has a remainder

// Numbers in [-1, 1) that are exact in fp32, the same everywhere.
template <class T>
std::vector<T> numbers(std::uint64_t seed) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < kCount; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    values.push_back(static_cast<T>(static_cast<std::int32_t>(seed >> 40) - (1 << 23)) /
                     static_cast<T>(1 << 23));
  }
  return values;
}

template <class T>
std::vector<T> squares(std::uint64_t seed) {
  auto values = numbers<T>(seed);
  for (T& value : values) value *= value;
  return values;
}

// FNV-1a over the bits.
class Digest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    for (const T value : values) add_bytes(&value, sizeof(value));
  }
  void add_bytes(const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      hash_ = (hash_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ULL;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

template <class T>
AdamWStep<T> adamw_step() {
  return {.grad_scale = T(0.7),
          .keep = T(0.997),
          .one_minus_beta1 = T(0.1),
          .beta2 = T(0.95),
          .one_minus_beta2 = T(0.05),
          .bias2_root = T(0.6),
          .eps = T(1e-8),
          .minus_step_size = T(-3e-3)};
}

NarrowWeights bf16(std::vector<std::uint16_t>& weight) {
  return {.bits = weight.data(), .type = Narrow::kBf16};
}

template <class T, class... Weight>
std::uint64_t adamw_digest(Weight&... weight) {
  auto grad = numbers<T>(1), m = numbers<T>(2), v = squares<T>(3), master = numbers<T>(4);
  for (int k = 0; k < 3; ++k)
    adamw(adamw_step<T>(), kCount, grad.data(), m.data(), v.data(), master.data(), bf16(weight)...);
  Digest digest;
  digest.add(m), digest.add(v), digest.add(master), (digest.add(weight), ...);
  return digest.value();
}

template <class T, class... Weight>
std::uint64_t sgd_digest(bool momentum, Weight&... weight) {
  auto grad = numbers<T>(1), buffer = numbers<T>(2), master = numbers<T>(4);
  const SgdStep<T> step{.grad_scale = T(0.7), .keep = T(0.997), .momentum = T(0.9), .minus_lr = T(-3e-3)};
  for (int k = 0; k < 3; ++k)
    sgd(step, kCount, grad.data(), momentum ? buffer.data() : nullptr, master.data(), bf16(weight)...);
  Digest digest;
  digest.add(buffer), digest.add(master), (digest.add(weight), ...);
  return digest.value();
}

}  // namespace

// The digests come from plain loops built for the first x86-64, without optimisation. IEEE arithmetic leaves
// no choice as long as nothing is fused or reordered, so every clone on every CPU must give them too.
TEST_CASE("kernels: the same bits on every instruction set", "[optim]") {
  std::vector<std::uint16_t> weight(kCount);
  CHECK(adamw_digest<float>() == 0x1647761d00586918ULL);
  CHECK(adamw_digest<double>() == 0x42baa58f96adf631ULL);
  CHECK(adamw_digest<float>(weight) == 0xf59ec2f82562e210ULL);
  CHECK(sgd_digest<float>(false) == 0xeac5cd1f4c6aa836ULL);
  CHECK(sgd_digest<double>(true) == 0x69a3da3fc3d3ca70ULL);
  CHECK(sgd_digest<float>(true, weight) == 0x8f06e1904a90ed33ULL);
  const auto x = numbers<float>(5);
  const auto y = numbers<double>(5);
  CHECK(std::bit_cast<std::uint64_t>(sum_of_squares(x.data(), kCount)) == 0x4074f6388c7e1a12ULL);
  CHECK(std::bit_cast<std::uint64_t>(sum_of_squares(y.data(), kCount)) == 0x4074f6388c7e1a12ULL);
}

TEST_CASE("kernels: fp16 weights are the masters, rounded to nearest even", "[optim]") {
  auto grad = numbers<float>(1), m = numbers<float>(2), v = squares<float>(3), master = numbers<float>(4);
  for (float& value : master) value *= 70000;  // some beyond fp16
  std::vector<std::uint16_t> weight(kCount);
  const auto all_rounded = [&] {
    for (std::size_t i = 0; i < weight.size(); ++i)
      if (weight[i] != llmtrain::fp16_of_float(master[i])) return false;
    return true;
  };
  const NarrowWeights half{.bits = weight.data(), .type = Narrow::kFp16};
  adamw(adamw_step<float>(), kCount, grad.data(), m.data(), v.data(), master.data(), half);
  CHECK(all_rounded());
  const SgdStep<float> step{.grad_scale = 0.7F, .keep = 0.997F, .momentum = 0.9F, .minus_lr = -3e-3F};
  sgd(step, kCount, grad.data(), nullptr, master.data(), half);
  CHECK(all_rounded());
}
