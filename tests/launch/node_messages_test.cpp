#include "llmtrain/launch/node_messages.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Json = nlohmann::json;

namespace {

RankNote note_of(int rank) {
  RankNote note;
  note.rank = rank;
  note.node = 1;
  note.step = 1'000'000'000'000;
  note.phase = "backward";
  note.heartbeat_age_s = 0.25;
  note.collective =
      CollectiveNote{.count = 3, .group = "dp", .op = "all_reduce", .sequence = 17, .bytes = 4096};
  note.pid = 4711;
  note.waiting = note.collective;
  note.groups = {*note.collective, {.count = 2, .group = "tp", .op = "all_gather", .sequence = 9}};
  note.costs = CostNote{120, 1200.5, 800.25, 0.125, 30};
  note.stack = {"a", "b"};
  return note;
}

std::vector<NodeOrder> all_orders() {
  std::vector<NodeOrder> orders;
  StartOrder start;
  start.incarnation = 3;
  start.epoch = 1'000'000'000'007;
  start.node = 1;
  start.nodes = 2;
  start.first_rank = 2;
  start.num_workers = 2;
  start.world_size = 4;
  start.spec_yaml = "run:\n  name: \"ä\"\n";
  start.checkpoint = "step-00000005";
  orders.emplace_back(start);
  orders.emplace_back(StopOrder{});
  orders.emplace_back(KillOrder{.stacks = true});
  orders.emplace_back(ClearOrder{});
  orders.emplace_back(FinishOrder{75, "stopped"});
  orders.emplace_back(StoreAnswer{3, 2, std::string("\0\xff\x80 any bytes", 13)});
  return orders;
}

std::vector<NodeReport> all_reports() {
  std::vector<NodeReport> reports;
  reports.emplace_back(NodeReady{});
  reports.emplace_back(StartFailed{3, 72, "no space", {2, 3}});
  reports.emplace_back(WorkerSaid{3, 2, Event{1.5, 3, CheckpointSaved{5, "/run/step-00000005", 99, 1.5}}});
  reports.emplace_back(WorkerLeft{3,
                                  {.rank = 2, .pid = 77, .signaled = true, .code = 9, .cause = "signal 9"},
                                  note_of(2),
                                  {"last", "words"},
                                  {1, {1 << 20, "/job"}}});
  reports.emplace_back(RanksSeen{3, {note_of(2), note_of(3)}});
  reports.emplace_back(WorkerStalled{3, 2, "no sign of life"});
  reports.emplace_back(StopAsked{"SIGTERM"});
  reports.emplace_back(NodeSaid{Severity::kError, -1, "disk", true});
  reports.emplace_back(StoreAsked{3, 2, std::string("\0\1\2", 3)});
  return reports;
}

}  // namespace

TEST_CASE("node messages: every order and report arrives as it was sent", "[launch]") {
  CHECK(all_orders().size() == std::variant_size_v<NodeOrder>);
  for (const NodeOrder& order : all_orders()) {
    const auto read = order_from_json(to_json(order));
    REQUIRE(read.ok());
    CHECK(*read == order);
  }
  CHECK(all_reports().size() == std::variant_size_v<NodeReport>);
  for (const NodeReport& report : all_reports()) {
    const auto read = report_from_json(to_json(report));
    REQUIRE(read.ok());
    CHECK(read->index() == report.index());
    CHECK(to_json(*read) == to_json(report));
  }
}

TEST_CASE("node messages: an order is no report", "[launch]") {
  for (const NodeOrder& order : all_orders()) CHECK_FALSE(report_from_json(to_json(order)).ok());
  for (const NodeReport& report : all_reports()) CHECK_FALSE(order_from_json(to_json(report)).ok());
}

TEST_CASE("node messages: what is missing, unknown, mistyped or too large is refused, and named",
          "[launch]") {
  const Json good = Json::parse(to_json(all_orders().front()));
  const auto refused = [](const Json& json, const std::string& why) {
    const auto read = order_from_json(json.dump());
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.find(why) != std::string::npos);
  };
  Json json = good;
  json["body"].erase("epoch");
  refused(json, "epoch");
  json = good;
  json["body"]["surprise"] = 1;
  refused(json, "unknown");
  json = good;
  json["body"]["world_size"] = "4";
  refused(json, "world_size");
  json = good;
  json["body"]["world_size"] = 4'000'000'000;
  refused(json, "range");
  json = good;
  json["body"]["world_size"] = 4.5;
  refused(json, "world_size");
  json = good;
  json["message"] = "explode";
  refused(json, "unknown");
  for (const char* text : {"", "[]", "{", "{\"message\":1,\"body\":{}}", "{\"message\":\"stop\"}"})
    CHECK_FALSE(order_from_json(text).ok());
  CHECK_FALSE(order_from_json(std::string((4 << 20) + 1, ' ')).ok());

  Json seen = Json::parse(to_json(NodeReport(RanksSeen{3, {note_of(0)}})));
  for (int i = 0; i < 4096; ++i) seen["body"]["notes"].push_back(seen["body"]["notes"][0]);
  CHECK_FALSE(report_from_json(seen.dump()).ok());
  Json asked = Json::parse(to_json(all_reports().back()));
  for (const char* hex : {"0", "0g", "0A", "zz"}) {
    asked["body"]["request"] = hex;
    CHECK_FALSE(report_from_json(asked.dump()).ok());
  }
}
