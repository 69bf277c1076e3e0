#include "llmtrain/core/check.hpp"

namespace llmtrain {

void fail_check(const char* file, int line, const char* condition, const std::string& detail) {
  throw CheckFailure(fmt::format("{}:{}: broken invariant `{}`: {}", file, line, condition, detail));
}

}  // namespace llmtrain
