#include "llmtrain/core/result.hpp"

#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

Result<std::vector<std::string>> names() {
  return std::vector<std::string>{"first, too long for a small string", "second, too long as well"};
}

}  // namespace

TEST_CASE("result: the value of a temporary lives as long as a range-for over it", "[core]") {
  std::string joined;
  for (const std::string& name : names().value()) joined += name.front();
  for (const std::string& name : *names()) joined += name.front();
  CHECK(joined == "fsfs");
}

TEST_CASE("result: a value that only moves is moved out", "[core]") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  CHECK(*std::move(result).value() == 7);
}

TEST_CASE("result: an error reads as its message and what to do next", "[core]") {
  CHECK(to_string(Error{ErrorCode::kIo, "no such file", "create it"}) == "no such file; create it");
  CHECK(to_string(Error{ErrorCode::kIo, "no such file", ""}) == "no such file");
}
