#pragma once

#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "llmtrain/comm/store.hpp"

// A Store as libtorch's process groups want to see it; keys get `prefix` in front of them.
//
// Only what they use when they connect: set, get, check and wait. Counting and deleting are refused.
namespace llmtrain {

c10::intrusive_ptr<c10d::Store> make_c10d_store(std::shared_ptr<Store> store,
                                                std::string prefix,
                                                std::chrono::milliseconds timeout);

}  // namespace llmtrain
