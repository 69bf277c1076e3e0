#pragma once

#include <optional>

#include "llmtrain/launch/supervisor.hpp"

// What a supervisor answers, taken apart.
namespace llmtrain::test {

template <class T>
const T* find(const Commands& commands) {
  for (const Command& command : commands)
    if (const T* found = std::get_if<T>(&command)) return found;
  return nullptr;
}

inline std::optional<ExitCode> finished(const Commands& commands) {
  const Finish* finish = find<Finish>(commands);
  return finish == nullptr ? std::nullopt : std::optional(finish->code);
}

}  // namespace llmtrain::test
