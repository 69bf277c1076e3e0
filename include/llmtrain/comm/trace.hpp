#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llmtrain/comm/communicator.hpp"

// What a rank's collectives were and what they cost: counts, bytes and the time it stood waiting.
//
// Totals are kept by (axis, operation); the newest calls also go into the black box, where the agent
// reads them when the rank hangs or is dead. Groups of one move nothing and are not traced. Used by
// the thread that owns the communicators.
namespace llmtrain {

struct BlackBox;

class CommTrace {
 public:
  struct Total {
    std::string axis;
    std::string op;
    std::int64_t count = 0;
    std::int64_t bytes = 0;  // payload given to the operation by this rank; of messages, by the sender
    double exposed_ms = 0;   // time the owner stood waiting
  };

  // `black_box` may be null. It must outlive the trace.
  explicit CommTrace(BlackBox* black_box) : black_box_(black_box) {}

  // In order of axis and operation.
  std::vector<Total> totals() const;
  double exposed_ms() const;  // of all operations so far

  // ---- for the decorator ----
  struct Call {
    Total* total = nullptr;
    std::uint64_t number = 0;    // of all calls, from 1
    std::uint64_t sequence = 0;  // of the calls of its group, from 1
    std::uint64_t bytes = 0;
  };
  Call begin(const std::string& axis, std::string_view op, std::int64_t bytes);
  void add_exposed(const Call& call, std::int64_t ns);
  void stand_in(const Call& call);  // the owner waits for it from now on
  void finish(const Call& call);

 private:
  BlackBox* black_box_;
  std::uint64_t calls_ = 0;
  std::map<std::string, std::uint64_t> sequences_;  // calls of each group
  std::map<std::pair<std::string, std::string>, Total> totals_;
};

std::unique_ptr<Communicator> make_traced_communicator(std::unique_ptr<Communicator> inner,
                                                       std::shared_ptr<CommTrace> trace);

}  // namespace llmtrain
