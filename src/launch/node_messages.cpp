#include "llmtrain/launch/node_messages.hpp"

#include <algorithm>
#include <concepts>
#include <iterator>
#include <span>

#include "message_json.hpp"

namespace llmtrain {
namespace {

template <class T, class Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

}  // namespace

// ---- one list of fields for each message; reading and writing walk it --------------------------------
void list_fields(Is<StartOrder> auto& order, auto&& field) {
  field("incarnation", order.incarnation);
  field("epoch", order.epoch);
  field("node", order.node);
  field("nodes", order.nodes);
  field("first_rank", order.first_rank);
  field("num_workers", order.num_workers);
  field("world_size", order.world_size);
  field("spec_yaml", order.spec_yaml);
  field("checkpoint", order.checkpoint);
}
void list_fields(Is<StopOrder> auto&, auto&&) {}
void list_fields(Is<KillOrder> auto& order, auto&& field) {
  field("stacks", order.stacks);
}
void list_fields(Is<ClearOrder> auto&, auto&&) {}
void list_fields(Is<FinishOrder> auto& order, auto&& field) {
  field("code", order.code);
  field("reason", order.reason);
}

void list_fields(Is<CollectiveNote> auto& note, auto&& field) {
  field("count", note.count);
  field("group", note.group);
  field("op", note.op);
  field("sequence", note.sequence);
  field("bytes", note.bytes);
  field("finished", note.finished);
}
void list_fields(Is<CostNote> auto& note, auto&& field) {
  field("step", note.step);
  field("total_ms", note.total_ms);
  field("compute_ms", note.compute_ms);
  field("data_ms", note.data_ms);
  field("sending_ms", note.sending_ms);
}
void list_fields(Is<RankNote> auto& note, auto&& field) {
  field("rank", note.rank);
  field("node", note.node);
  field("pid", note.pid);
  field("step", note.step);
  field("phase", note.phase);
  field("micro_batch", note.micro_batch);
  field("heartbeat_age_s", note.heartbeat_age_s);
  field("collective", note.collective);
  field("waiting", note.waiting);
  field("groups", note.groups);
  field("costs", note.costs);
  field("process_state", note.process_state);
  field("wait_channel", note.wait_channel);
  field("stack", note.stack);
}
void list_fields(Is<EndNote> auto& end, auto&& field) {
  field("rank", end.rank);
  field("pid", end.pid);
  field("signaled", end.signaled);
  field("code", end.code);
  field("cause", end.cause);
  field("at_ms", end.at_ms);
  field("by_agent", end.by_agent);
}
void list_fields(Is<MemoryKills> auto& kills, auto&& field) {
  field("count", kills.count);
  field("limit", kills.limit.value);
  field("group", kills.limit.group);
}
void list_fields(Is<NodeReady> auto&, auto&&) {}
void list_fields(Is<StartFailed> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("code", report.code);
  field("message", report.message);
  field("not_started", report.not_started);
}
void list_fields(Is<WorkerLeft> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("end", report.end);
  field("note", report.note);
  field("last_words", report.last_words);
  field("memory_kills", report.memory_kills);
}
void list_fields(Is<RanksSeen> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("notes", report.notes);
}
void list_fields(Is<WorkerStalled> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("rank", report.rank);
  field("message", report.message);
}
void list_fields(Is<StopAsked> auto& report, auto&& field) {
  field("signal", report.signal);
}

void list_fields(Is<StoreAnswer> auto& order, auto&& field) {
  field("incarnation", order.incarnation);
  field("rank", order.rank);
  field("reply", message_json::Hex{order.reply});
}
void list_fields(Is<WorkerSaid> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("rank", report.rank);
  field("event", report.event);
}
void list_fields(Is<NodeSaid> auto& report, auto&& field) {
  field("severity", report.severity);
  field("rank", report.rank);
  field("text", report.text);
  field("output", report.output);
}
void list_fields(Is<StoreAsked> auto& report, auto&& field) {
  field("incarnation", report.incarnation);
  field("rank", report.rank);
  field("request", message_json::Hex{report.request});
}

namespace {

using message_json::Json;

// In the order of the variants.
constexpr const char* kOrders[] = {"start", "stop", "kill", "clear", "finish", "store_answer"};
constexpr const char* kReports[] = {
    "ready", "start_failed", "said", "left", "seen", "stalled", "stop_asked", "note", "store_asked"};
static_assert(std::size(kOrders) == std::variant_size_v<NodeOrder>);
static_assert(std::size(kReports) == std::variant_size_v<NodeReport>);

template <class Message>
std::string to_text(const Message& message, const char* const* names) {
  const Json body = std::visit([](const auto& m) { return message_json::write(m); }, message);
  const Json object = {{"message", names[message.index()]}, {"body", body}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What is wrong with the body of alternative `index`, read into `message`; empty: nothing.
template <class Message, std::size_t I = 0>
std::string read_alternative(std::size_t index, const Json& body, Message& message) {
  if constexpr (I == std::variant_size_v<Message>)
    return "is unknown";
  else
    return index == I ? message_json::read(body, message.template emplace<I>())
                      : read_alternative<Message, I + 1>(index, body, message);
}

template <class Message>
Result<Message> from_text(const std::string& text, std::span<const char* const> names) {
  const auto refuse = [](const std::string& problem) {
    return Error{ErrorCode::kCorrupt, "a message between agents " + problem, {}};
  };
  const Json object = text.size() > message_json::kMaxText ? Json() : Json::parse(text, nullptr, false);
  if (!object.is_object() || object.size() != 2 || !object.contains("body") || !object.contains("message") ||
      !object["message"].is_string())
    return refuse("is not what it should be: {\"message\", \"body\"}");
  const auto name = std::find(names.begin(), names.end(), object["message"].get<std::string>());
  Message message;
  const std::string problem =
      read_alternative(static_cast<std::size_t>(name - names.begin()), object["body"], message);
  if (!problem.empty()) return refuse(problem);
  return message;
}

}  // namespace

std::string to_json(const NodeOrder& order) {
  return to_text(order, kOrders);
}
std::string to_json(const NodeReport& report) {
  return to_text(report, kReports);
}
Result<NodeOrder> order_from_json(const std::string& text) {
  return from_text<NodeOrder>(text, kOrders);
}
Result<NodeReport> report_from_json(const std::string& text) {
  return from_text<NodeReport>(text, kReports);
}

}  // namespace llmtrain
