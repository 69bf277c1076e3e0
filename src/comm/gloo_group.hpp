#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/core/result.hpp"

namespace c10d {
class ProcessGroupGloo;
}

// One rank's membership in a group of ranks on any hosts, which Gloo connects: messages from rank to rank.
//
// Every wait has a deadline and knows its peer, so that a failure names it. After a failure the group is
// broken: every other and later call returns the same error. Any thread may post and wait.
namespace llmtrain {

class GlooGroup {
 public:
  // Two streams of messages between each two ranks, each in its own order.
  enum Tag { kCollectives = 0, kMessages = 1 };

  // A message on its way. It keeps its memory until the group ends, unless it was waited for.
  struct Message {
    c10::intrusive_ptr<c10d::Work> work;  // null when Gloo refused it
    at::Tensor tensor;
    int peer = 0;
    std::string refusal;
  };

  // Waits for all members. Throws CommError, which names those that did not come.
  GlooGroup(const std::shared_ptr<Store>& store, RemoteGroupOptions options);
  ~GlooGroup();
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  const std::string& name() const { return options_.name; }
  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.members.size()); }
  int global_rank(int member) const { return options_.members[static_cast<std::size_t>(member)]; }

  // Contiguous memory of at least one element; the peer names the same number of bytes.
  Message send(const at::Tensor& tensor, int to, Tag tag);
  Message recv(const at::Tensor& tensor, int from, Tag tag);
  // `subject` names the call in errors: "all_reduce #7".
  Status wait(const Message& message, const std::string& subject);
  // Of a message that nobody will wait for.
  void abandon(Message message);

  std::vector<int> missing_ranks() const;
  // Ends the waits of other threads.
  void cancel();

 private:
  Status fail(const std::string& subject, ErrorCode code, const std::string& what, std::vector<int> missing);
  template <class Verb>
  Message post(const at::Tensor& tensor, int peer, Verb&& verb);
  std::string wait_for(const Message& message, std::chrono::steady_clock::time_point deadline);
  std::string explain(const std::exception& exception, std::chrono::steady_clock::time_point deadline) const;

  RemoteGroupOptions options_;
  std::vector<Message> abandoned_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::mutex posting_;        // its counters are not for several threads
  mutable std::mutex mutex_;  // of all below
  std::set<c10d::Work*> waiting_;
  bool cancelled_ = false;
  bool broken_ = false;
  std::vector<int> missing_;
  Error failure_;
};

}  // namespace llmtrain
