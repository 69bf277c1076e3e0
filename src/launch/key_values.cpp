#include "llmtrain/launch/key_values.hpp"

#include <algorithm>

namespace llmtrain {

std::vector<AddressedReply> KeyValues::ask(Instant now, StoreReader from, const StoreRequest& request) {
  if (request.op == StoreRequest::Op::kSet) return set(from, request);
  if (const auto found = values_.find(request.key); found != values_.end())
    return {{from, {request.id, found->second}}};
  if (request.timeout_ms == 0 || waiting_.size() >= kMaxWaiting) return {{from, {request.id, std::nullopt}}};
  waiting_.push_back({from, request.id, request.key, now + Milliseconds{request.timeout_ms}});
  return {};
}

std::vector<AddressedReply> KeyValues::set(StoreReader from, const StoreRequest& request) {
  const auto old = values_.find(request.key);
  const std::size_t freed = old == values_.end() ? 0 : request.key.size() + old->second.size();
  const std::size_t after = bytes_ - freed + request.key.size() + request.value.size();
  if (after > kMaxBytes) return {{from, {request.id, std::nullopt}}};
  bytes_ = after;
  values_[request.key] = request.value;

  std::vector<AddressedReply> replies = {{from, {request.id, ""}}};
  std::erase_if(waiting_, [&](const Waiting& reader) {
    if (reader.key != request.key) return false;
    replies.push_back({reader.from, {reader.id, request.value}});
    return true;
  });
  return replies;
}

std::vector<AddressedReply> KeyValues::tick(Instant now) {
  std::vector<AddressedReply> replies;
  std::erase_if(waiting_, [&](const Waiting& reader) {
    if (reader.until > now) return false;
    replies.push_back({reader.from, {reader.id, std::nullopt}});
    return true;
  });
  return replies;
}

std::optional<Instant> KeyValues::deadline() const {
  std::optional<Instant> first;
  for (const Waiting& reader : waiting_) first = first ? std::min(*first, reader.until) : reader.until;
  return first;
}

void KeyValues::clear() {
  values_.clear();
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace llmtrain
