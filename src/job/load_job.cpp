#include "llmtrain/job/load_job.hpp"

#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/job/presets.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/spec/aliases.hpp"
#include "llmtrain/spec/read.hpp"
#include "llmtrain/spec/write.hpp"

#include "data_files.hpp"
#include "load_steps.hpp"
#include "resolve.hpp"
#include "rules.hpp"

namespace llmtrain {
namespace {

// `~` and `~/x` stand for the home directory; `~user` is left alone.
void expand_home(std::string& path, const std::string& home) {
  if (home.empty() || !path.starts_with('~')) return;
  if (path.size() == 1 || path[1] == '/') path.replace(0, 1, home);
}

void expand_paths(JobSpec& spec, const std::string& home) {
  expand_home(spec.run.dir, home);
  expand_home(spec.data.tokenizer, home);
  if (is_schedule_file(spec.parallelism.schedule)) expand_home(spec.parallelism.schedule, home);
  for (DataSourceSpec& source : spec.data.train) expand_home(source.path, home);
  for (DataSourceSpec& source : spec.data.valid) expand_home(source.path, home);
}

void validate(const JobSpec& spec, const YamlNode& tree, const JobSource& source, Diagnostics& diagnostics) {
  Rules rules(spec, tree, diagnostics);
  check_required(rules);
  check_run(rules, source.cuda_available);
  check_model(rules);
  check_data(rules);
  check_layout(rules);
  check_precision(rules);
  check_memory(rules);
  check_training(rules);
  check_schedule(rules);
  check_faults(rules);
  check_data_files(rules, source.missing_data);
}

}  // namespace

std::string read_job_file(const std::string& file, Diagnostics& diagnostics) {
  const Origin origin{std::make_shared<const std::string>(file), 0, 0};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    diagnostics.error(origin, "", "cannot be opened: no such file, or no permission to read it");
    return {};
  }
  // One byte more than allowed is enough for the parser to refuse it.
  std::string text(YamlLimits::kBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad() || (stream.fail() && !stream.eof()))
    diagnostics.error(origin, "", "cannot be read; is it a directory?");
  return text;
}

YamlNode merge_sources(const JobSource& source, Diagnostics& diagnostics) {
  YamlNode tree = map_node();
  if (source.files.empty()) diagnostics.error({}, "", "no job file given");
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    YamlNode file = parse_yaml(read_job_file(source.files[i], diagnostics), source.files[i], diagnostics);
    rename_aliases(file, diagnostics);
    if (i == 0) {
      tree = std::move(file);
    } else {
      merge(tree, file);
    }
  }
  const std::string name = fmt::format("{}", fmt::join(source.files, ", "));
  for (const std::string& argument : source.overrides) apply_override(tree, argument, name, diagnostics);
  return tree;
}

JobReport finish_job(YamlNode tree, const JobSource& source, Diagnostics diagnostics) {
  LoadedJob job;
  job.source_yaml = to_yaml(tree);

  // The one default that refers to another field is made explicit, so that it is expanded with the rest.
  if (find_path(tree, "run.dir") == nullptr) {
    YamlNode run = map_node();
    put(run, "dir", scalar_node(RunSpec{}.dir, true));
    YamlNode over = map_node();
    put(over, "run", std::move(run));
    const YamlNode* section = tree.find("run");
    if (section == nullptr || section->is_map() || section->kind == YamlNode::Kind::kNull) merge(tree, over);
  }
  interpolate(tree, to_tree(JobSpec{}), source.env, diagnostics);
  apply_preset(tree, diagnostics);
  read_spec(tree, job.spec, diagnostics);
  expand_paths(job.spec, source.home);
  resolve(job.spec, tree, source.procs_per_node, source.cuda_available, diagnostics);
  validate(job.spec, tree, source, diagnostics);

  JobReport report;
  report.diagnostics = diagnostics.all();
  if (diagnostics.has_errors()) return report;
  job.resolved_yaml = to_yaml(to_tree(job.spec));
  job.warnings = diagnostics.all();
  report.job = std::move(job);
  return report;
}

Result<LoadedJob> to_result(JobReport report) {
  if (!report.job) return to_error(report.diagnostics);
  return std::move(*report.job);
}

JobReport check_job(const JobSource& source) {
  Diagnostics diagnostics;
  YamlNode tree = merge_sources(source, diagnostics);
  return finish_job(std::move(tree), source, std::move(diagnostics));
}

JobReport check_job_text(const std::string& text, const std::string& name, const JobSource& source) {
  Diagnostics diagnostics;
  YamlNode tree = parse_yaml(text, name, diagnostics);
  rename_aliases(tree, diagnostics);
  for (const std::string& argument : source.overrides) apply_override(tree, argument, name, diagnostics);
  return finish_job(std::move(tree), source, std::move(diagnostics));
}

Result<LoadedJob> load_job(const JobSource& source) {
  return to_result(check_job(source));
}

Result<JobSpec> parse_resolved(const std::string& yaml, const std::string& origin) {
  Diagnostics diagnostics;
  const YamlNode tree = parse_yaml(yaml, origin, diagnostics);
  JobSpec spec;
  read_spec(tree, spec, diagnostics);
  const bool complete = spec.parallelism.dp && spec.launch.procs_per_node &&
                        spec.batch.gradient_accumulation_steps && spec.batch.global_batch_size &&
                        spec.model.num_kv_heads && spec.model.head_dim && spec.model.ffn_hidden_size &&
                        spec.model.max_position && spec.precision.reduce;
  if (!complete && !diagnostics.has_errors())
    diagnostics.error(tree.origin, "", "not a resolved spec: some fields are still auto");
  if (diagnostics.has_errors()) return to_error(diagnostics.all());
  return spec;
}

}  // namespace llmtrain
