#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

// Broken invariants stop the rank, in release builds too.
//
// Use it where a mistake of ours would otherwise hang a collective or corrupt state; never for input
// that a user or a machine can get wrong (that is an Error, see result.hpp).
namespace llmtrain {

// Thrown by LLMTRAIN_CHECK; what() names file, line, the condition and the values.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace llmtrain

// LLMTRAIN_CHECK(size == expected, "got {} of {} bytes", size, expected);
#define LLMTRAIN_CHECK(condition, ...)                                                                    \
  do {                                                                                                    \
    if (!(condition)) ::llmtrain::fail_check(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
