#include "llmtrain/comm/all_gather_bytes.hpp"

#include <algorithm>

#include <ATen/ops/zeros.h>

namespace llmtrain {

std::vector<std::string> all_gather_bytes(Communicator& group, const std::string& own) {
  const auto size = static_cast<std::int64_t>(group.size());
  const at::Tensor own_length = at::zeros({1}, at::kLong);  // [1]
  own_length.mutable_data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(own.size());
  at::Tensor lengths = at::zeros({size}, at::kLong);  // [size]
  group.all_gather(own_length, lengths);
  const std::int64_t* length = lengths.const_data_ptr<std::int64_t>();

  // Padded to the longest: the verbs move equal parts.
  const std::int64_t longest = *std::max_element(length, length + size);
  const at::Tensor in = at::zeros({longest}, at::kByte);    // [longest]
  at::Tensor out = at::zeros({size * longest}, at::kByte);  // [size x longest]
  std::copy(own.begin(), own.end(), in.mutable_data_ptr<std::uint8_t>());
  group.all_gather(in, out);

  std::vector<std::string> all;
  const std::uint8_t* bytes = out.const_data_ptr<std::uint8_t>();
  for (std::int64_t rank = 0; rank < size; ++rank) {
    const std::uint8_t* begin = bytes + rank * longest;
    all.emplace_back(begin, begin + length[rank]);
  }
  return all;
}

}  // namespace llmtrain
