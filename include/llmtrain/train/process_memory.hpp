#pragma once

#include <cstdint>

namespace llmtrain {

// Peak resident bytes of this process so far.
std::int64_t peak_resident_bytes();

}  // namespace llmtrain
