#include "llmtrain/schedule/generate.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/schedule/check.hpp"

#include "generators.hpp"

namespace llmtrain {
namespace {

struct Generator {
  std::string_view name;
  int least_chunks;
  int most_chunks;
  int default_chunks;
  std::vector<Action> (*program)(const Pipeline&, int stage);
};

constexpr int kMaxChunks = 1024;
constexpr std::int64_t kMaxActions = 1 << 20;

constexpr std::array kGenerators = {
    Generator{"gpipe", 1, 1, 1, gpipe_program},
    Generator{"1f1b", 1, 1, 1, one_f_one_b_program},
    Generator{"interleaved", 2, kMaxChunks, 2, interleaved_program},
    Generator{"zb-h1", 1, 1, 1, zb_h1_program},
    Generator{"zbv", 2, 2, 2, zbv_program},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kGenerators.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kGenerators[i].name;
  return names;
}();

Error unfit(std::string message, std::string hint) {
  return {ErrorCode::kInvalidSpec, std::move(message), std::move(hint)};
}

// The other schedule that would take this many virtual stages.
std::string nearest(const Generator& generator, int wanted) {
  const int fitting = std::clamp(wanted, generator.least_chunks, generator.most_chunks);
  if (wanted < 1) return fmt::format("virtual_stages = {} works", fitting);
  const char* other = wanted == 1 ? "1f1b" : "interleaved";
  return fmt::format("virtual_stages = {} works, or schedule {}", fitting, other);
}

std::string chunks_text(const Generator& generator) {
  if (generator.least_chunks < generator.most_chunks)
    return fmt::format("at least {} virtual stages", generator.least_chunks);
  return generator.least_chunks == 1 ? "one virtual stage"
                                     : fmt::format("exactly {} virtual stages", generator.least_chunks);
}

Result<Pipeline> fit(const Generator& generator, const ScheduleRequest& request) {
  if (request.pp < 1)
    return unfit(fmt::format("pp = {}: a pipeline has at least one stage", request.pp), "pp = 1 works");
  if (request.micro_batches < 1)
    return unfit(fmt::format("{} micro-batches: a step has at least one", request.micro_batches),
                 fmt::format("pp = {} is kept busy by {} or more", request.pp, request.pp));
  const int chunks = request.virtual_stages.value_or(generator.default_chunks);
  if (chunks < generator.least_chunks || chunks > generator.most_chunks)
    return unfit(fmt::format("virtual_stages = {} does not fit schedule {}, which runs {} on each stage",
                             chunks,
                             generator.name,
                             chunks_text(generator)),
                 nearest(generator, chunks));
  // At most F, I and W for every micro-batch on every virtual stage.
  const std::int64_t slots = kMaxActions / 3;
  if (request.pp > slots / chunks / request.micro_batches)
    return unfit(fmt::format("{} stages x {} virtual stages x {} micro-batches are more than {} actions",
                             request.pp,
                             chunks,
                             request.micro_batches,
                             kMaxActions),
                 "use fewer micro-batches of a larger size");
  return Pipeline{request.pp, chunks, request.micro_batches};
}

}  // namespace

std::span<const std::string_view> schedule_names() {
  return kNames;
}

Result<Schedule> generate(const ScheduleRequest& request) {
  const auto generator = std::find_if(kGenerators.begin(), kGenerators.end(), [&](const Generator& known) {
    return known.name == request.schedule;
  });
  if (generator == kGenerators.end())
    return unfit(fmt::format("`{}` is not a known schedule", request.schedule),
                 fmt::format("known are {}, and the path of a .csv file", fmt::join(kNames, ", ")));
  LLMTRAIN_ASSIGN(pipeline, fit(*generator, request));
  const bool vee = generator->program == zbv_program;
  Schedule schedule{
      request.schedule,
      pipeline.num_micro_batches,
      vee ? StageMap::vee(pipeline.num_stages) : StageMap::loop(pipeline.num_stages, pipeline.num_chunks),
      {}};
  for (int stage = 0; stage < pipeline.num_stages; ++stage)
    schedule.programs.push_back(generator->program(pipeline, stage));
  const auto problems = check(schedule);
  LLMTRAIN_CHECK(problems.empty(), "{}: {}", schedule.name, problems.front());
  return schedule;
}

}  // namespace llmtrain
