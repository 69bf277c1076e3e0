#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// Which file the code at an address comes from, read out of /proc/self/maps inside a signal handler.
//
// The loader would know, but it may be the very thing that is broken or locked.
namespace llmtrain {

struct CodePlace {
  std::uint64_t address = 0;
  std::uint64_t offset = 0;        // from where its file was loaded; from 0 when no file is known
  std::array<char, 256> module{};  // zero-padded; empty when no file is known
};

// Fills `count` places by their addresses, in one pass over the map.
void find_modules(CodePlace* places, std::size_t count);

}  // namespace llmtrain
