#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/spec/tree.hpp"

// What the rules of a spec have in common: where fields were written, whether they could be read, and
// how a violation is reported. Each file rules_*.cpp judges some sections; all run, always.
namespace llmtrain {

class Rules {
 public:
  Rules(const JobSpec& judged, const YamlNode& tree, Diagnostics& diagnostics)
      : spec(judged), tree_(tree), diagnostics_(diagnostics) {}

  const JobSpec& spec;

  // Whether the user, a preset or a --set wrote the field.
  bool given(const std::string& path) const { return find_path(tree_, path) != nullptr; }
  // The value as it was written, or set by --set; empty when it was not.
  std::string written(const std::string& path) const {
    const YamlNode* node = find_path(tree_, path);
    return node == nullptr ? "" : node->text;
  }
  // Whether all of these could be read: a rule about a stand-in value would only confuse.
  bool usable(std::initializer_list<const char*> paths) const {
    for (const char* path : paths)
      if (diagnostics_.is_bad(path)) return false;
    return true;
  }

  void error(const std::string& path, std::string message) {
    diagnostics_.error(origin_of(tree_, path), path, std::move(message));
  }
  void warning(const std::string& path, std::string message) {
    diagnostics_.warning(origin_of(tree_, path), path, std::move(message));
  }

 private:
  const YamlNode& tree_;
  Diagnostics& diagnostics_;
};

void check_required(Rules& rules);
void check_model(Rules& rules);
void check_run(Rules& rules, bool cuda_available);
void check_layout(Rules& rules);
void check_launch(Rules& rules);
void check_resilience(Rules& rules);
void check_tensor(Rules& rules);
void check_sequence(Rules& rules);
void check_pipeline(Rules& rules);
void check_zero(Rules& rules);
void check_precision(Rules& rules);
void check_memory(Rules& rules);
void check_data(Rules& rules);
void check_training(Rules& rules);
void check_schedule(Rules& rules);
void check_faults(Rules& rules);

}  // namespace llmtrain
