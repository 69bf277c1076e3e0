#include <stdexcept>

#include "llmtrain/comm/backends.hpp"

// In place of nccl_communicator.cpp where that is not linked in.
namespace llmtrain {

std::unique_ptr<Communicator> make_nccl_communicator(const std::shared_ptr<Store>&,
                                                     const RemoteGroupOptions& options) {
  throw std::runtime_error("group " + options.name +
                           " needs NCCL, which is part of libllmtrain_engine_cuda.so only; configure with "
                           "-DLLMTRAIN_WITH_CUDA=ON and run with device: cuda");
}

}  // namespace llmtrain
