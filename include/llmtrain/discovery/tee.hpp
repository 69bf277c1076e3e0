#pragma once

#include <map>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// `--tee`: which streams of which ranks of this node also go to the console. torchrun's meaning: one number
// for all ranks, or `local rank:number` pairs; ranks may have several digits. 0 = none, 1 = stdout,
// 2 = stderr, 3 = both.
namespace llmtrain {

class Tee {
 public:
  static Result<Tee> parse(std::string_view text);

  bool out(int local_rank) const { return (of(local_rank) & 1) != 0; }
  bool err(int local_rank) const { return (of(local_rank) & 2) != 0; }

 private:
  int of(int local_rank) const;

  int all_ = 0;
  std::map<int, int> ranks_;
};

}  // namespace llmtrain
