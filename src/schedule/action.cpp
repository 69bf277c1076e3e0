#include "llmtrain/schedule/action.hpp"

#include <fmt/format.h>

namespace llmtrain {

std::string notation(int virtual_stage, ActionKind kind, int micro_batch) {
  return fmt::format("{}{}{}", virtual_stage, letter(kind), micro_batch);
}

}  // namespace llmtrain
