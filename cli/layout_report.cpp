#include "layout_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/schedule/timeline.hpp"

#include "bytes_text.hpp"

namespace llmtrain::cli {
namespace {

std::int64_t held(const RankCosts& costs) {
  return costs.memory.params + costs.memory.grads + costs.memory.optimizer + costs.memory.host_optimizer;
}

// ---- JSON ----

YamlNode number(std::int64_t value) {
  return scalar_node(std::to_string(value));
}

YamlNode traffic_node(const Traffic& traffic) {
  YamlNode node = map_node();
  put(node, "calls", number(traffic.calls));
  put(node, "bytes", number(traffic.bytes));
  return node;
}

void put_traffic(YamlNode& node,
                 const char* axis,
                 std::initializer_list<std::pair<const char*, Traffic>> operations) {
  YamlNode map = map_node();
  for (const auto& [operation, traffic] : operations)
    if (traffic != Traffic{}) put(map, operation, traffic_node(traffic));
  if (!map.entries.empty()) put(node, axis, std::move(map));
}

// What is not over the gradient group, by axis and operation as comm_totals names them.
YamlNode other_axes_node(const RankCosts& costs) {
  YamlNode node = map_node();
  put_traffic(node,
              "tp",
              {{"all_reduce", costs.tensor.all_reduce},
               {"all_gather", costs.tensor.all_gather},
               {"reduce_scatter", costs.tensor.reduce_scatter}});
  put_traffic(node,
              "sp",
              {{"send_recv", costs.sequence.send_recv},
               {"all_gather", costs.sequence.all_gather},
               {"reduce_scatter", costs.sequence.reduce_scatter},
               {"all_to_all", costs.sequence.all_to_all}});
  put_traffic(
      node, "pp", {{"send", costs.pipeline.sent_activations}, {"recv", costs.pipeline.received_activations}});
  put_traffic(node,
              "pp_grad",
              {{"send", costs.pipeline.sent_gradients}, {"recv", costs.pipeline.received_gradients}});
  put_traffic(node, "embedding", {{"all_reduce", costs.tied}});
  return node;
}

YamlNode costs_node(const RankCosts& costs) {
  YamlNode node = map_node();
  put(node, "params", number(costs.memory.params));
  put(node, "grads", number(costs.memory.grads));
  put(node, "optimizer", number(costs.memory.optimizer));
  put(node, "host_optimizer", number(costs.memory.host_optimizer));
  put(node, "all_reduce_over_copies", traffic_node(costs.gradient.copies));
  put(node, "all_reduce", traffic_node(costs.gradient.all_reduce));
  put(node, "reduce_scatter", traffic_node(costs.gradient.reduce_scatter));
  put(node, "all_gather", traffic_node(costs.gradient.all_gather));
  put(node, "axes", other_axes_node(costs));
  return node;
}

// ---- text ----

std::string text(std::int64_t bytes) {
  return bytes_text(static_cast<std::uint64_t>(bytes));
}

std::string pipeline_comment(const LayoutReport& report) {
  const Schedule& schedule = report.plan.schedule;
  std::vector<int> peaks;
  for (const RankCosts& stage : report.stages) peaks.push_back(stage.kept.peak);
  std::string comment = fmt::format(
      "# pipeline: {}, {} stages{}, {} micro-batches; stages stand idle for {:.1f} % of a step\n"
      "# layers of each virtual stage: {}; micro-batches kept at once by each stage: {}{}\n",
      is_schedule_text(report.spec.parallelism.schedule) ? "a schedule file" : schedule.name,
      schedule.num_stages(),
      schedule.map.num_chunks() > 1 ? fmt::format(" of {} virtual stages", schedule.map.num_chunks()) : "",
      schedule.num_micro_batches,
      100 * simulate(schedule).bubble_share(),
      fmt::join(report.spec.parallelism.stage_layers.value(), " "),
      fmt::join(peaks, " "),
      schedule.map.num_chunks() > 1
          ? fmt::format(", each on 1 of {} virtual stages", schedule.map.num_chunks())
          : "");
  return comment;
}

// Stages 2 and 3 spread what every micro-batch of a pipeline must have whole.
std::string zero_comment(const LayoutReport& report, const RankCosts& costs) {
  const ParallelismSpec& p = report.spec.parallelism;
  const int m = report.plan.schedule.num_micro_batches;
  if (p.pp == 1 || p.zero_stage < 2 || m == 1 || costs.gradient.reduce_scatter.calls == 0) return {};
  const std::int64_t once = costs.gradient.reduce_scatter.bytes / m;
  std::string comment = fmt::format(
      "# zero_stage {} in a pipeline: gradients are summed after each of {} micro-batches, {} instead of {}",
      p.zero_stage,
      m,
      text(costs.gradient.reduce_scatter.bytes),
      text(once));
  const std::int64_t segments = costs.gradient.reduce_scatter.calls / m;
  if (p.zero_stage == 3 && costs.gradient.all_gather.calls > segments)
    comment += fmt::format(
        "; weights are gathered {:.1f} times, {} (parallelism.reshard_after_forward: false gathers them "
        "once)",
        static_cast<double>(costs.gradient.all_gather.calls) / static_cast<double>(segments),
        text(costs.gradient.all_gather.bytes));
  return comment + "\n";
}

std::string axes_comment(const RankCosts& costs) {
  const TensorTraffic& t = costs.tensor;
  const SequenceTraffic& s = costs.sequence;
  const std::pair<const char*, std::int64_t> axes[] = {
      {"tp", t.all_reduce.bytes + t.all_gather.bytes + t.reduce_scatter.bytes},
      {"sp", s.send_recv.bytes + s.all_gather.bytes + s.reduce_scatter.bytes + s.all_to_all.bytes},
      {"pp", costs.pipeline.sent_activations.bytes},
      {"pp_grad", costs.pipeline.sent_gradients.bytes},
      {"embedding", costs.tied.bytes}};
  std::vector<std::string> words;
  for (const auto& [axis, bytes] : axes)
    if (bytes > 0) words.push_back(fmt::format("{} {}", axis, text(bytes)));
  if (words.empty()) return {};
  return fmt::format("# it gives over other axes: {}\n", fmt::join(words, ", "));
}

}  // namespace

LayoutReport layout_report(const JobSpec& spec) {
  auto plan = plan_pipeline(spec);
  LLMTRAIN_CHECK(plan.ok(), "{}", plan ? "" : to_string(plan.error()));
  LayoutReport report{.spec = spec, .plan = *plan, .stages = {}};
  for (int stage = 0; stage < spec.parallelism.pp; ++stage)
    report.stages.push_back(rank_costs(spec, report.plan.schedule, report.plan.segments, stage));
  const auto largest = std::max_element(report.stages.begin(),
                                        report.stages.end(),
                                        [](const auto& a, const auto& b) { return held(a) < held(b); });
  report.largest = static_cast<int>(largest - report.stages.begin());
  return report;
}

YamlNode rank_node(const LayoutReport& report) {
  return costs_node(report.stages[static_cast<std::size_t>(report.largest)]);
}

YamlNode pipeline_node(const LayoutReport& report) {
  const Schedule& schedule = report.plan.schedule;
  if (schedule.num_stages() == 1) return {};
  YamlNode stages = list_node();
  for (const RankCosts& stage : report.stages) {
    YamlNode node = costs_node(stage);
    put(node, "layers", number(stage.layers));
    put(node, "peak_in_flight", number(stage.kept.peak));
    stages.items.push_back(std::move(node));
  }
  YamlNode node = map_node();
  put(node, "virtual_stages", number(schedule.map.num_chunks()));
  put(node, "micro_batches", number(schedule.num_micro_batches));
  put(node, "bubble_share", scalar_node(fmt::format("{}", simulate(schedule).bubble_share())));
  put(node, "largest_stage", number(report.largest));
  put(node, "stages", std::move(stages));
  return node;
}

std::string to_comments(const LayoutReport& report) {
  const bool pipelined = report.stages.size() > 1;
  const RankCosts& costs = report.stages[static_cast<std::size_t>(report.largest)];
  std::string comment = pipelined ? pipeline_comment(report) : "";
  comment +=
      fmt::format("# a rank{}, without activations: params {}, grads {}, optimizer {}{}\n",
                  pipelined ? fmt::format(" of stage {}, which holds most, has", report.largest) : " holds",
                  text(costs.memory.params),
                  text(costs.memory.grads),
                  text(costs.memory.optimizer + costs.memory.host_optimizer),
                  costs.memory.host_optimizer > 0 ? " in host memory" : "");
  if (costs.gradient != ShardTraffic{})
    comment += fmt::format(
        "# a rank gives to its data-parallel group in a step: all_reduce {}, reduce_scatter {}, all_gather "
        "{}\n",
        text(costs.gradient.copies.bytes + costs.gradient.all_reduce.bytes),
        text(costs.gradient.reduce_scatter.bytes),
        text(costs.gradient.all_gather.bytes));
  return comment + zero_comment(report, costs) + axes_comment(costs);
}

}  // namespace llmtrain::cli
