#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/schedule/generate.hpp"
#include "llmtrain/schedule/timeline.hpp"

#include "rules.hpp"

// What a job must offer to be cut into pipeline stages.
namespace llmtrain {
namespace {

void check_without_pipeline(Rules& rules) {
  for (const char* field : {"parallelism.schedule", "parallelism.virtual_stages", "parallelism.stage_layers"})
    if (rules.given(field)) rules.warning(field, "has no effect: parallelism.pp is 1");
}

bool is_known(const std::string& schedule) {
  const auto names = schedule_names();
  return is_schedule_text(schedule) || std::find(names.begin(), names.end(), schedule) != names.end();
}

// Whether the schedule and its virtual stages go together, whatever the number of micro-batches.
bool fits_schedule(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!rules.usable({"parallelism.schedule", "parallelism.virtual_stages"})) return false;
  if (!is_known(p.schedule)) {
    rules.error("parallelism.schedule",
                fmt::format("= {}: unknown; allowed: {}, or the path of a .csv file",
                            p.schedule,
                            fmt::join(schedule_names(), ", ")));
    return false;
  }
  if (is_schedule_text(p.schedule)) return true;
  const auto alone = generate({p.schedule, 1, 1, p.virtual_stages});
  if (!alone) rules.error("parallelism.virtual_stages", to_string(alone.error()));
  return alone.ok();
}

// The nearest layouts for which the model has pieces.
std::vector<std::string> ways_to_cut(std::int64_t pieces, std::int64_t pp, std::int64_t virtual_stages) {
  std::vector<std::string> ways;
  if (pieces / virtual_stages > 1) ways.push_back(fmt::format("at most {}", pieces / virtual_stages));
  if (virtual_stages > 1)
    ways.push_back(pp <= pieces ? "schedule 1f1b, with one virtual stage on each stage"
                                : fmt::format("at most {} with schedule 1f1b", pieces));
  return ways;
}

// Every virtual stage holds a layer, the embedding or the head.
bool has_pieces(Rules& rules) {
  const std::int64_t pp = rules.spec.parallelism.pp;
  const std::int64_t pieces = most_virtual_stages(rules.spec.model.num_layers);
  const std::int64_t virtual_stages = rules.spec.parallelism.virtual_stages.value();
  if (pp * virtual_stages <= pieces) return true;
  rules.error(
      "parallelism.pp",
      fmt::format("= {}: {} x parallelism.virtual_stages {} = {} virtual stages, and model.num_layers = "
                  "{} makes {} pieces (the embedding, each layer, the head); allowed: {}",
                  pp,
                  pp,
                  virtual_stages,
                  pp * virtual_stages,
                  rules.spec.model.num_layers,
                  pieces,
                  fmt::join(ways_to_cut(pieces, pp, virtual_stages), ", or ")));
  return false;
}

// What is wrong with them; empty when nothing is.
std::string objection_to_layers(const std::vector<std::int64_t>& layers, const JobSpec& spec) {
  const ParallelismSpec& p = spec.parallelism;
  const auto virtual_stages = static_cast<std::size_t>(p.pp * p.virtual_stages.value());
  if (layers.size() != virtual_stages)
    return fmt::format("{} numbers for parallelism.pp {} x parallelism.virtual_stages {} = {} virtual stages",
                       layers.size(),
                       p.pp,
                       *p.virtual_stages,
                       virtual_stages);
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != spec.model.num_layers)
    return fmt::format("{} layers in all, but model.num_layers is {}", sum, spec.model.num_layers);
  for (std::size_t s = 1; s + 1 < layers.size(); ++s)
    if (layers[s] == 0)
      return fmt::format(
          "virtual stage {} holds nothing: only the first, with the embedding, and the last, with the head, "
          "can "
          "do without layers",
          s);
  return {};
}

void check_layers(Rules& rules) {
  const JobSpec& spec = rules.spec;
  const ParallelismSpec& p = spec.parallelism;
  if (!p.stage_layers || !rules.usable({"parallelism.stage_layers"})) return;
  const std::string objection = objection_to_layers(*p.stage_layers, spec);
  if (objection.empty()) return;
  rules.error(
      "parallelism.stage_layers",
      fmt::format(
          "= [{}]: {}; allowed: for example [{}], or auto",
          fmt::join(*p.stage_layers, ", "),
          objection,
          fmt::join(balanced_layers(spec.model, spec.data.seq_length, p.pp * *p.virtual_stages), ", ")));
}

// What the user called the schedule: a resolved spec holds the text of a file.
std::string schedule_name(const Rules& rules) {
  const std::string written = rules.written("parallelism.schedule");
  return is_schedule_text(written) ? "the given schedule" : written;
}

void check_micro_batches(Rules& rules) {
  const ParallelismSpec& p = rules.spec.parallelism;
  const auto schedule = plan_schedule(rules.spec, schedule_name(rules));
  if (!schedule) {
    rules.error(is_schedule_text(p.schedule) ? "parallelism.schedule" : "parallelism.pp",
                to_string(schedule.error()));
    return;
  }
  if (schedule->num_micro_batches < p.pp)
    rules.warning(
        "batch.gradient_accumulation_steps",
        fmt::format(
            "= {}: fewer micro-batches than the {} stages of the pipeline, which stand idle for {:.0f} % "
            "of a step; {} or more keep them busier",
            schedule->num_micro_batches,
            p.pp,
            100 * simulate(*schedule).bubble_share(),
            p.pp));
}

}  // namespace

void check_pipeline(Rules& rules) {
  if (rules.spec.parallelism.pp == 1) return check_without_pipeline(rules);
  if (!rules.usable({"parallelism.pp"}) || !fits_schedule(rules)) return;
  const bool known_layers =
      rules.spec.model.num_layers > 0 && rules.usable({"model.num_layers", "model.preset"});
  if (known_layers && has_pieces(rules) && rules.usable({"model"})) check_layers(rules);
  if (rules.usable({"batch", "parallelism.dp", "launch"})) check_micro_batches(rules);
}

}  // namespace llmtrain
