#include <fmt/format.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/generate.hpp"
#include "llmtrain/spec/read.hpp"
#include "llmtrain/spec/tree.hpp"

#include "resolve.hpp"

// What `auto` means for the fields of a pipeline, and the text of a schedule file in the place of its path.
namespace llmtrain {
namespace {

// Text that is no schedule stays as it is: the rules say what is wrong with it.
std::string in_short(const std::string& text, const std::string& name) {
  const auto schedule = parse_schedule_csv(text, name);
  return schedule ? to_csv(*schedule) : text;
}

void read_schedule_file(ParallelismSpec& p, const YamlNode& tree, Diagnostics& diagnostics) {
  const std::string path = p.schedule;
  const auto text = read_file(*make_posix_filesystem(), path, kMaxText);
  if (text && is_schedule_text(*text)) {
    p.schedule = in_short(*text, path);
    return;
  }
  diagnostics.error(origin_of(tree, "parallelism.schedule"),
                    "parallelism.schedule",
                    fmt::format("= {}: {}; `llmtrain schedule show --csv` writes such a file",
                                path,
                                text ? "no schedule in it" : to_string(text.error())));
}

// Of each stage; 1 for what is no schedule.
int wanted_virtual_stages(const std::string& schedule) {
  const auto found = is_schedule_text(schedule) ? parse_schedule_csv(schedule, "parallelism.schedule")
                                                : generate({schedule, 1, 1, {}});
  return found ? found->map.num_chunks() : 1;
}

}  // namespace

void resolve_pipeline(JobSpec& spec, const YamlNode& tree, Diagnostics& diagnostics) {
  ParallelismSpec& p = spec.parallelism;
  const bool pipelined = p.pp > 1;
  if (pipelined && is_schedule_file(p.schedule)) read_schedule_file(p, tree, diagnostics);
  if (!p.virtual_stages) p.virtual_stages = pipelined ? wanted_virtual_stages(p.schedule) : 1;
  const std::int64_t pieces = pipelined ? std::int64_t{p.pp} * *p.virtual_stages : 1;
  if (!p.stage_layers && pieces <= most_virtual_stages(spec.model.num_layers))
    p.stage_layers = balanced_layers(spec.model, spec.data.seq_length, static_cast<int>(pieces));
}

}  // namespace llmtrain
