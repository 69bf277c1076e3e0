#include "llmtrain/placement/init.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/philox.hpp"

// Compiled without contraction into fused multiply-adds (src/CMakeLists.txt): the values are a contract.
namespace llmtrain {
namespace {

// Natural logarithm of a normal, positive x: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
// log m = 2 atanh(t) with t = (m - 1) / (m + 1), |t| <= 0.1716. The cut series is below 1e-17.
double plain_log(double x) {
  constexpr double kLn2 = 0.693147180559945309417232121458;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return static_cast<double>(exponent) * kLn2 + 2.0 * t * sum;
}

double polynomial(const std::array<double, 8>& c, double x) {
  double sum = c[7];
  for (int k = 6; k >= 0; --k) sum = sum * x + c[static_cast<std::size_t>(k)];
  return sum;
}

// AS 241 (Wichura 1988), routine PPND16. Its third branch (sqrt(-log p) > 5) lies beyond the 32-bit
// grid: the smallest p is 2^-33, where the root is 4.79.
constexpr std::array<double, 8> kCentreTop = {3.3871328727963666080e0,
                                              1.3314166789178437745e+2,
                                              1.9715909503065514427e+3,
                                              1.3731693765509461125e+4,
                                              4.5921953931549871457e+4,
                                              6.7265770927008700853e+4,
                                              3.3430575583588128105e+4,
                                              2.5090809287301226727e+3};
constexpr std::array<double, 8> kCentreBottom = {1.0,
                                                 4.2313330701600911252e+1,
                                                 6.8718700749205790830e+2,
                                                 5.3941960214247511077e+3,
                                                 2.1213794301586595867e+4,
                                                 3.9307895800092710610e+4,
                                                 2.8729085735721942674e+4,
                                                 5.2264952788528545610e+3};
constexpr std::array<double, 8> kTailTop = {1.42343711074968357734e0,
                                            4.63033784615654529590e0,
                                            5.76949722146069140550e0,
                                            3.64784832476320460504e0,
                                            1.27045825245236838258e0,
                                            2.41780725177450611770e-1,
                                            2.27238449892691845833e-2,
                                            7.74545014278341407640e-4};
constexpr std::array<double, 8> kTailBottom = {1.0,
                                               2.05319162663775882187e0,
                                               1.67638483018380384940e0,
                                               6.89767334985100004550e-1,
                                               1.48103976427480074590e-1,
                                               1.51986665636164571966e-2,
                                               5.47593808499534494600e-4,
                                               1.05075007164441684324e-9};

template <class T>
void fill(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::span<T> out) {
  LLMTRAIN_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= param.numel(),
                 "slice [{}, {}) of {} with {} elements",
                 first,
                 first + static_cast<std::int64_t>(out.size()),
                 param.name,
                 param.numel());
  if (param.init != InitRule::kNormal) {
    std::fill(out.begin(), out.end(), param.init == InitRule::kOnes ? T(1) : T(0));
    return;
  }
  const std::uint64_t key = init_key(seed, param.name);
  std::uint64_t index = static_cast<std::uint64_t>(first);
  std::array<std::uint32_t, 4> words = philox(key, index / 4);
  for (T& value : out) {
    if (index % 4 == 0) words = philox(key, index / 4);
    value = static_cast<T>(param.init_std * normal_quantile(words[index % 4]));
    ++index;
  }
}

}  // namespace

std::uint64_t init_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over the name
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  // One Philox round set mixes seed and name, so that neighbouring seeds share nothing.
  const auto mixed = philox(seed, hash);
  return (static_cast<std::uint64_t>(mixed[1]) << 32) | mixed[0];
}

double normal_quantile(std::uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  const double q = u - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentreTop, r) / polynomial(kCentreBottom, r);
  }
  const double p = q < 0 ? u : 1.0 - u;
  const double r = std::sqrt(-plain_log(p)) - 1.6;
  const double z = polynomial(kTailTop, r) / polynomial(kTailBottom, r);
  return q < 0 ? -z : z;
}

void init_values(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::span<float> out) {
  fill(param, seed, first, out);
}

void init_values(const ParamSpec& param, std::uint64_t seed, std::int64_t first, std::span<double> out) {
  fill(param, seed, first, out);
}

}  // namespace llmtrain
