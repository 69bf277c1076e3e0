#include "gloo_group.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "llmtrain/comm/store.hpp"

#include "c10d_store.hpp"
#include "group_key.hpp"

namespace llmtrain {
namespace {

using std::chrono::milliseconds;

std::string key_of(const RemoteGroupOptions& options) {
  return group_key("comm", options);
}

milliseconds to_milliseconds(std::chrono::nanoseconds time) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(time));
}

std::string arrived(const std::string& key, int member) {
  return fmt::format("{}arrived/{}", key, member);
}

std::vector<int> not_arrived(Store& store, const RemoteGroupOptions& options) {
  std::vector<int> missing;
  for (std::size_t member = 0; member < options.members.size(); ++member)
    if (!store.get(arrived(key_of(options), static_cast<int>(member)), milliseconds(0)))
      missing.push_back(options.members[member]);
  return missing;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect(const std::shared_ptr<Store>& store,
                                                   const RemoteGroupOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  const milliseconds timeout = to_milliseconds(options.timeout);
  auto gloo_options = Gloo::Options::create(timeout);
  gloo_options->threads = 1;  // they run its collectives, of which there are none here
  gloo_options->devices.push_back(options.address.empty() ? Gloo::createDefaultDevice()
                                                          : Gloo::createDeviceForHostname(options.address));
  return c10::make_intrusive<Gloo>(make_c10d_store(store, key_of(options), timeout),
                                   options.rank,
                                   static_cast<int>(options.members.size()),
                                   gloo_options);
}

}  // namespace

GlooGroup::GlooGroup(const std::shared_ptr<Store>& store, RemoteGroupOptions options)
    : options_(std::move(options)) {
  store->set(arrived(key_of(options_), rank()), "");
  try {
    gloo_ = connect(store, options_);
  } catch (const std::exception& exception) {
    const std::vector<int> missing = not_arrived(*store, options_);
    throw CommError(
        fmt::format("group {} of ranks {} cannot connect; did not arrive: {}; gloo says: {}",
                    name(),
                    fmt::join(options_.members, ", "),
                    missing.empty() ? "nobody" : fmt::format("rank {}", fmt::join(missing, ", rank ")),
                    exception.what()),
        missing);
  }
}

GlooGroup::~GlooGroup() = default;

// A connection that broke refuses messages; whoever waits for this one learns of it.
template <class Verb>
GlooGroup::Message GlooGroup::post(const at::Tensor& tensor, int peer, Verb&& verb) {
  if (options_.jitter) options_.jitter();
  Message message{.work = {}, .tensor = tensor, .peer = peer, .refusal = {}};
  std::vector<at::Tensor> list{tensor};
  const std::lock_guard lock(posting_);
  try {
    message.work = verb(list);
  } catch (const std::exception& exception) {
    message.refusal = exception.what();
  }
  return message;
}

GlooGroup::Message GlooGroup::send(const at::Tensor& tensor, int to, Tag tag) {
  return post(tensor, to, [&](std::vector<at::Tensor>& list) { return gloo_->send(list, to, tag); });
}

GlooGroup::Message GlooGroup::recv(const at::Tensor& tensor, int from, Tag tag) {
  return post(tensor, from, [&](std::vector<at::Tensor>& list) { return gloo_->recv(list, from, tag); });
}

Status GlooGroup::wait(const Message& message, const std::string& subject) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return failure_;
    if (!cancelled_ && message.work) waiting_.insert(message.work.get());
  }
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  const std::string what = wait_for(message, deadline);
  {
    const std::lock_guard lock(mutex_);
    waiting_.erase(message.work.get());
  }
  if (what.empty()) return ok_status();
  const bool late = std::chrono::steady_clock::now() >= deadline;
  return fail(subject, late ? ErrorCode::kTimeout : ErrorCode::kPeerLost, what, {global_rank(message.peer)});
}

// What went wrong; empty when nothing did.
std::string GlooGroup::wait_for(const Message& message, std::chrono::steady_clock::time_point deadline) {
  if (!message.work) return fmt::format("lost a peer (gloo says: {})", message.refusal);
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return "was cancelled by its own rank";
  }
  try {
    return message.work->wait(to_milliseconds(options_.timeout)) ? "" : "was cancelled by its own rank";
  } catch (const std::exception& exception) {
    return explain(exception, deadline);
  }
}

std::string GlooGroup::explain(const std::exception& exception,
                               std::chrono::steady_clock::time_point deadline) const {
  if (std::chrono::steady_clock::now() >= deadline)
    return fmt::format("timed out after {} s", std::chrono::duration<double>(options_.timeout).count());
  return fmt::format("lost a peer (gloo says: {})", exception.what());
}

void GlooGroup::abandon(Message message) {
  const std::lock_guard lock(mutex_);
  abandoned_.push_back(std::move(message));
}

std::vector<int> GlooGroup::missing_ranks() const {
  const std::lock_guard lock(mutex_);
  return missing_;
}

void GlooGroup::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (c10d::Work* work : waiting_) work->abort();
}

Status GlooGroup::fail(const std::string& subject,
                       ErrorCode code,
                       const std::string& what,
                       std::vector<int> missing) {
  const std::lock_guard lock(mutex_);
  if (broken_) return failure_;
  broken_ = true;
  missing_ = std::move(missing);
  failure_ = {
      .code = code,
      .message = fmt::format(
          "{} of group {} {}; did not arrive: rank {}", subject, name(), what, fmt::join(missing_, ", ")),
      .hint = ""};
  return failure_;
}

}  // namespace llmtrain
