#include "llmtrain/core/unique_fd.hpp"

#include <unistd.h>

namespace llmtrain {

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace llmtrain
