#pragma once

#include <string>
#include <vector>

#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/sizing/rank_costs.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/spec/yaml.hpp"

// What a job's layout costs its ranks, computed on paper, as `validate` prints it.
namespace llmtrain::cli {

struct LayoutReport {
  JobSpec spec;
  PipelinePlan plan;
  std::vector<RankCosts> stages;
  int largest = 0;  // the stage whose ranks hold most
};

// `spec` is resolved and valid.
LayoutReport layout_report(const JobSpec& spec);

// Of a rank of the largest stage.
YamlNode rank_node(const LayoutReport& report);
// Null without a pipeline.
YamlNode pipeline_node(const LayoutReport& report);
// Lines that begin with `#`, so that a spec behind them is still a spec.
std::string to_comments(const LayoutReport& report);

}  // namespace llmtrain::cli
