#include "llmtrain/monitor/events.hpp"

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Event> one_of_each() {
  return {
      {1.5, 2, StepReport{120, 3.4182, 0.91, 2.4e-4, 1048576, 18432.25, 412, 0.38, 31.2, 1, 0.125, 65536}},
      {1.5, 2, StepReport{}},
      {1.5, 2, RunStarted{"tiny", 4, 10, 200, "pp1 dp4 sp1 tp1", 123456789012, 2, "avx2"}},
      {1.5, 2, EvalReport{20, 2.25, 4096}},
      {1.5, 2, CheckpointSaved{20, "runs/a b/checkpoints/step-00000020", 1 << 20, 12.5}},
      {1.5, 2, CheckpointLoaded{20, "x", 3}},
      {1.5, 2, CheckpointRejected{"x", "checksum of \"model.safetensors\" differs"}},
      {1.5, 2, WorkerExited{1, 4242, 137, "signal 9 (SIGKILL)", 7, "backward"}},
      {1.5, 2, Restarted{1, 10, "rank 1 ended"}},
      {1.5, 2, StopRequested{"SIGTERM"}},
      {1.5, 2, RunFinished{75, 20, "preempted"}},
      {1.5, 2, CommTotals{3, "dp", "all_reduce", 21, 1234567, 1.25}},
      {1.5, 2, MemoryReport{3, 1, 2, 3, 5, 4}},
      {1.5, 2, PhaseTotals{3, 0.5, 1, 2, 3, 4, 5, 6, 7}},
      {1.5, 2, StragglerFound{"2, 3", 1, "gpu-17", "communication", 48, 412, 31.5, 610}},
      {1.5, 2, StragglerOver{"2, 3", 1, "gpu-17", "communication", 96}},
      {1.5, 2, Note{Severity::kWarning, 3, "line one\nline \xe2\x82\xac two\t\x01"}},
  };
}

std::string error_of(const std::string& line) {
  const auto event = event_from_json(line);
  REQUIRE_FALSE(event);
  CHECK(event.error().code == ErrorCode::kCorrupt);
  return event.error().message;
}

}  // namespace

TEST_CASE("events: every kind survives writing and reading", "[monitor]") {
  const auto events = one_of_each();
  std::vector<bool> seen(std::variant_size_v<EventBody>);
  for (const Event& event : events) {
    const std::string line = to_json_line(event);
    CHECK(line.find('\n') == std::string::npos);
    const auto back = event_from_json(line);
    REQUIRE(back);
    CHECK(back->body.index() == event.body.index());
    CHECK(to_json_line(*back) == line);
    seen[event.body.index()] = true;
  }
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i]);
}

TEST_CASE("events: golden lines", "[monitor]") {
  const auto events = one_of_each();
  CHECK(
      to_json_line(events[0]) ==
      R"({"time":1.5,"event":"step","incarnation":2,"step":120,"loss":3.4182,"grad_norm":0.91,"lr":0.00024,)"
      R"("tokens":1048576,"tok_s":18432.25,"step_ms":412.0,"mfu":0.38,"mem_gb":31.2,"skipped":1,)"
      R"("data_wait_ms":0.125,"loss_scale":65536.0})");
  CHECK(to_json_line(events[3]) ==
        R"({"time":1.5,"event":"eval","incarnation":2,"step":20,"loss":2.25,"tokens":4096})");
  CHECK(
      to_json_line(events[11]) ==
      R"({"time":1.5,"event":"comm_totals","incarnation":2,"rank":3,"axis":"dp","op":"all_reduce","count":21,)"
      R"("bytes":1234567,"exposed_ms":1.25})");
  CHECK(to_json_line(events[12]) ==
        R"({"time":1.5,"event":"memory","incarnation":2,"rank":3,"params":1,"grads":2,"optimizer":3,)"
        R"("host_optimizer":5,"activations_peak":4})");
}

TEST_CASE("events: a metrics row has the documented keys in order", "[monitor]") {
  const StepReport report{120, 3.4182, 0.91, 2.4e-4, 1048576, 18432.25, 412, 0.38, 31.2, 1, 0.125};
  CHECK(
      to_metrics_line(report, 1.5, 2) ==
      R"({"step":120,"loss":3.4182,"grad_norm":0.91,"lr":0.00024,"tokens":1048576,"tok_s":18432.25,)"
      R"("step_ms":412.0,"mfu":0.38,"mem_gb":31.2,"skipped":1,"incarnation":2,"time":1.5,"data_wait_ms":0.125,)"
      R"("loss_scale":null})");
}

TEST_CASE("events: absent and non-finite numbers are null and every key stays", "[monitor]") {
  StepReport report;
  report.loss = kNan;
  report.grad_norm = std::numeric_limits<double>::infinity();
  report.lr = kNan;
  CHECK(
      to_metrics_line(report, 1.5, 0) ==
      R"({"step":0,"loss":null,"grad_norm":null,"lr":null,"tokens":0,"tok_s":null,"step_ms":null,"mfu":null,)"
      R"("mem_gb":null,"skipped":0,"incarnation":0,"time":1.5,"data_wait_ms":0.0,"loss_scale":null})");
  const auto back = event_from_json(to_json_line({1, 0, EvalReport{3, kNan, 0}}));
  REQUIRE(back);
  CHECK(std::isnan(std::get<EvalReport>(back->body).loss));
}

TEST_CASE("events: numbers come back bit-equal", "[monitor]") {
  const double awkward = 0.1 + 0.2;
  const auto back = event_from_json(to_json_line({1764500000.123456, 0, EvalReport{1, awkward, INT64_MAX}}));
  REQUIRE(back);
  CHECK(back->time == 1764500000.123456);
  CHECK(std::get<EvalReport>(back->body).loss == awkward);
  CHECK(std::get<EvalReport>(back->body).tokens == INT64_MAX);
}

TEST_CASE("events: text that is not UTF-8 is repaired", "[monitor]") {
  const auto back = event_from_json(to_json_line({1, 0, CheckpointRejected{"runs/\xff\xfe", "x"}}));
  REQUIRE(back);
  CHECK(std::get<CheckpointRejected>(back->body).path == "runs/\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("events: bad messages are refused with what is wrong", "[monitor]") {
  using Catch::Matchers::Contains;
  CHECK_THAT(error_of(""), Contains("not a JSON object"));
  CHECK_THAT(error_of("[1]"), Contains("not a JSON object"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval")"), Contains("not a JSON object"));
  CHECK_THAT(error_of(R"({"event":"eval","incarnation":0})"), Contains("`time` is missing"));
  CHECK_THAT(error_of(R"({"time":1,"event":"evil","incarnation":0})"), Contains("no event is called `evil`"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval","incarnation":0,"step":1,"loss":2})"),
             Contains("`tokens` is missing"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval","incarnation":0,"step":1,"loss":2,"tokens":3,"x":4})"),
             Contains("`eval` has no key `x`"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval","incarnation":0,"step":1.5,"loss":2,"tokens":3})"),
             Contains("`step` cannot be `1.5`"));
  CHECK_THAT(
      error_of(
          R"({"time":1,"event":"eval","incarnation":0,"step":18446744073709551615,"loss":2,"tokens":3})"),
      Contains("`step` cannot be"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval","incarnation":4294967296,"step":1,"loss":2,"tokens":3})"),
             Contains("`incarnation` cannot be"));
  CHECK_THAT(error_of(R"({"time":1,"event":"eval","incarnation":0,"step":1,"loss":"2","tokens":3})"),
             Contains("`loss` cannot be `\"2\"`"));
  CHECK_THAT(error_of(R"({"time":1,"event":"note","incarnation":0,"severity":"loud","rank":0,"text":""})"),
             Contains("`severity` cannot be"));
  CHECK_THAT(error_of(std::string(100000, '[')), Contains("not a JSON object"));
  CHECK_THAT(error_of(std::string((1 << 20) + 1, ' ')), Contains("bytes long"));
}
