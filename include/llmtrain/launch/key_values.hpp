#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/control/store_wire.hpp"
#include "llmtrain/core/instant.hpp"

// The key-value store of one incarnation, through which workers find each other; the leader keeps it.
//
// A get waits for its key until its deadline; a set never waits. Bounded in bytes and in waiting readers:
// what does not fit is answered as if the key had not come. It knows no socket and reads no clock.
namespace llmtrain {

struct StoreReader {
  int node = 0;
  int rank = 0;
};
struct AddressedReply {
  StoreReader to;
  StoreReply reply;
};

class KeyValues {
 public:
  static constexpr std::size_t kMaxBytes = 64 << 20;  // of keys and values
  static constexpr std::size_t kMaxWaiting = 64 * 1024;

  std::vector<AddressedReply> ask(Instant now, StoreReader from, const StoreRequest& request);
  // Answers readers whose time is over.
  std::vector<AddressedReply> tick(Instant now);
  std::optional<Instant> deadline() const;
  // Another incarnation begins: its workers know nothing of the keys of this one.
  void clear();

 private:
  struct Waiting {
    StoreReader from;
    std::uint32_t id = 0;
    std::string key;
    Instant until{0};
  };
  std::vector<AddressedReply> set(StoreReader from, const StoreRequest& request);

  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace llmtrain
