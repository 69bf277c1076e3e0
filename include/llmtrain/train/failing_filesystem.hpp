#pragma once

#include <memory>

#include "llmtrain/core/filesystem.hpp"

// Files on a disk that fails: the `nth` write (from 1) ends in `error`, all others are those of `inner`.
//
// The files of the fault hook `kind: io`; nothing else makes one.
namespace llmtrain {

std::unique_ptr<FileSystem> make_failing_filesystem(std::unique_ptr<FileSystem> inner, int nth, int error);

}  // namespace llmtrain
