#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/spec/aliases.hpp"
#include "llmtrain/spec/tree.hpp"
#include "llmtrain/spec/write.hpp"

#include "load_steps.hpp"

namespace llmtrain {
namespace {

// Derived anew when the command changes the layout, unless the command sets them too.
constexpr std::array kDerived = {
    "launch.procs_per_node", "batch.gradient_accumulation_steps", "parallelism.dp"};

// What the layers of stages are dealt out by: another of these, and they are dealt out anew.
constexpr std::array kPipeline = {
    "parallelism.pp", "parallelism.schedule", "parallelism.virtual_stages", "model.num_layers"};

void remove_path(YamlNode& root, const std::string& path) {
  const std::size_t dot = path.find('.');
  YamlNode* section = root.find(path.substr(0, dot));
  if (section == nullptr) return;
  std::erase_if(section->entries, [&](const YamlEntry& entry) { return entry.key == path.substr(dot + 1); });
}

void set_path(YamlNode& root, const std::string& path, YamlNode value) {
  const std::size_t dot = path.find('.');
  YamlNode section = map_node();
  section.origin = value.origin;
  put(section, path.substr(dot + 1), std::move(value));
  YamlNode over = map_node();
  put(over, path.substr(0, dot), std::move(section));
  merge(root, over);
}

// A path as it must be written where ${...} is expanded.
std::string literal(std::string path) {
  for (std::size_t at = 0; (at = path.find("${", at)) != std::string::npos; at += 3) path.insert(at, 1, '$');
  return path;
}

// What this command alone sets, as a tree.
YamlNode overrides_of(const JobSource& source) {
  YamlNode tree = map_node();
  Diagnostics reported_later;
  for (const std::string& argument : source.overrides) apply_override(tree, argument, "", reported_later);
  return tree;
}

bool changes_layout(const YamlNode& command, const JobSource& source) {
  return source.procs_per_node || command.find("parallelism") != nullptr ||
         command.find("launch") != nullptr || command.find("batch") != nullptr;
}

// The spec of the run's newest incarnation; absent when it was never started or is damaged.
std::optional<JobSpec> last_spec(const RunDir& dir) {
  std::ifstream stream(dir.resolved_spec(), std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  auto spec = parse_resolved(text, dir.resolved_spec().string());
  if (!spec) return std::nullopt;
  return std::move(*spec);
}

// Seed and global batch size decide which samples make which step: a run keeps them.
void check_invariants(const JobSpec& before, JobReport& report) {
  const JobSpec& now = report.job->spec;
  const auto refuse = [&report](const char* path, auto found, auto kept) {
    report.diagnostics.push_back(
        {DiagnosticLevel::kError,
         {},
         path,
         fmt::format(
             "= {}: this run has {}, which decides its samples; allowed: {}, or start another run directory",
             found,
             kept,
             kept)});
  };
  if (now.run.seed != before.run.seed) refuse("run.seed", now.run.seed, before.run.seed);
  if (now.batch.global_batch_size != before.batch.global_batch_size)
    refuse("batch.global_batch_size", *now.batch.global_batch_size, *before.batch.global_batch_size);
  if (report.diagnostics.size() != report.job->warnings.size()) report.job.reset();
}

}  // namespace

JobReport check_resumed_job(const std::string& run_dir, const JobSource& source) {
  const RunDir dir(run_dir);
  Diagnostics diagnostics;
  JobSource from_run = source;
  from_run.files = {dir.source_spec().string()};
  YamlNode tree = merge_sources(from_run, diagnostics);

  const Origin origin{std::make_shared<const std::string>("resume " + run_dir), 0, 0};
  const auto text = [&origin](std::string value) {
    YamlNode node = scalar_node(std::move(value), true);
    node.origin = origin;
    return node;
  };
  const std::optional<JobSpec> before = last_spec(dir);
  const YamlNode command = overrides_of(source);
  if (changes_layout(command, source)) {
    for (const char* path : kDerived)
      if (find_path(command, path) == nullptr) remove_path(tree, path);
    if (before && find_path(command, "batch.global_batch_size") == nullptr)
      set_path(tree, "batch.global_batch_size", text(std::to_string(*before->batch.global_batch_size)));
  }
  const bool changes_pipeline = std::any_of(kPipeline.begin(), kPipeline.end(), [&](const char* path) {
    return find_path(command, path) != nullptr;
  });
  if (changes_pipeline && find_path(command, "parallelism.stage_layers") == nullptr)
    remove_path(tree, "parallelism.stage_layers");
  if (find_path(command, "run.dir") == nullptr) set_path(tree, "run.dir", text(literal(run_dir)));

  JobReport report = finish_job(std::move(tree), from_run, std::move(diagnostics));
  if (report.job && before) check_invariants(*before, report);
  return report;
}

Result<LoadedJob> load_resumed_job(const std::string& run_dir, const JobSource& source) {
  return to_result(check_resumed_job(run_dir, source));
}

}  // namespace llmtrain
