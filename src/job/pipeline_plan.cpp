#include "llmtrain/job/pipeline_plan.hpp"

#include <string>

#include <fmt/format.h>

#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/generate.hpp"

namespace llmtrain {
namespace {

Schedule without_pipeline(int num_micro_batches) {
  Schedule schedule{"1f1b", num_micro_batches, StageMap::loop(1, 1), {{}}};
  for (int m = 0; m < num_micro_batches; ++m) {
    schedule.programs[0].push_back({ActionKind::kForward, 0, m});
    schedule.programs[0].push_back({ActionKind::kBackward, 0, m});
  }
  return schedule;
}

Error unfit(
    std::string_view name, const char* what, const char* field, std::int64_t found, std::int64_t set) {
  return {ErrorCode::kInvalidSpec,
          fmt::format("{} is a schedule for {} {}, but {} is {}", name, found, what, field, set),
          fmt::format("allowed with it: {} = {}", field, found)};
}

// A file states its numbers itself, and they must be the job's.
Status fits(const Schedule& schedule, const RunPlan& plan, const ParallelismSpec& p, std::string_view name) {
  if (schedule.num_stages() != p.pp)
    return unfit(name, "stages", "parallelism.pp", schedule.num_stages(), p.pp);
  if (schedule.num_micro_batches != plan.accumulation)
    return unfit(name,
                 "micro-batches",
                 "batch.gradient_accumulation_steps",
                 schedule.num_micro_batches,
                 plan.accumulation);
  if (p.virtual_stages && schedule.map.num_chunks() != *p.virtual_stages)
    return unfit(name,
                 "virtual stages on each stage",
                 "parallelism.virtual_stages",
                 schedule.map.num_chunks(),
                 *p.virtual_stages);
  return ok_status();
}

std::vector<std::int64_t> layers_of(const JobSpec& spec, const Schedule& schedule) {
  const int virtual_stages = schedule.map.num_virtual_stages();
  if (spec.parallelism.pp > 1 && spec.parallelism.stage_layers) return *spec.parallelism.stage_layers;
  return balanced_layers(spec.model, spec.data.seq_length, virtual_stages);
}

}  // namespace

bool is_schedule_text(std::string_view schedule) {
  // Every stage has a forward and a backward, so every text has a comma.
  return schedule.find(',') != std::string_view::npos && !is_schedule_file(schedule);
}

Result<Schedule> plan_schedule(const JobSpec& spec, std::string_view name) {
  const ParallelismSpec& p = spec.parallelism;
  const RunPlan plan = plan_run(spec);
  const int micro_batches = static_cast<int>(plan.accumulation);
  if (p.pp == 1) return without_pipeline(micro_batches);
  if (!is_schedule_text(p.schedule)) return generate({p.schedule, p.pp, micro_batches, p.virtual_stages});
  LLMTRAIN_ASSIGN(schedule, parse_schedule_csv(p.schedule, std::string(name)));
  LLMTRAIN_TRY(fits(schedule, plan, p, name));
  return schedule;
}

Result<PipelinePlan> plan_pipeline(const JobSpec& spec) {
  LLMTRAIN_ASSIGN(schedule, plan_schedule(spec));
  const auto virtual_stages = static_cast<std::size_t>(schedule.map.num_virtual_stages());
  if (schedule.map.num_virtual_stages() > most_virtual_stages(spec.model.num_layers))
    return Error{
        ErrorCode::kInvalidSpec,
        fmt::format("{} layers are too few for {} virtual stages", spec.model.num_layers, virtual_stages),
        "lower parallelism.pp"};
  std::vector<SegmentRange> segments = stage_segments(layers_of(spec, schedule));
  if (segments.size() != virtual_stages || segments.back().end != spec.model.num_layers + 2)
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("parallelism.stage_layers does not deal {} layers out to {} virtual stages",
                             spec.model.num_layers,
                             virtual_stages),
                 "allowed: auto"};
  return PipelinePlan{std::move(schedule), std::move(segments)};
}

}  // namespace llmtrain
