#include <algorithm>

#include <fmt/format.h>

#include "rules.hpp"

namespace llmtrain {
namespace {

void check_sources(Rules& rules, const char* field, const std::vector<DataSourceSpec>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string path = fmt::format("{}[{}].path", field, i);
    if (sources[i].path.empty() && rules.usable({field}))
      rules.error(
          path, "missing; allowed: a token file pair without its suffix, a directory with one, or synthetic");
  }
}

}  // namespace

void check_data(Rules& rules) {
  const DataSpec& data = rules.spec.data;
  if (data.train.empty() && rules.usable({"data"}))
    rules.error("data.train", "missing; a run needs at least one source, for example [{path: synthetic}]");
  check_sources(rules, "data.train", data.train);
  check_sources(rules, "data.valid", data.valid);

  const bool evaluates = rules.spec.train.eval_interval.amount > 0;
  if (evaluates && data.valid.empty() && data.valid_fraction == 0 &&
      rules.usable({"data.valid", "data.valid_fraction", "train.eval_interval"}))
    rules.error("train.eval_interval",
                fmt::format("= {}: nothing to evaluate on; give data.valid or data.valid_fraction",
                            to_string(rules.spec.train.eval_interval)));
  if (!data.valid.empty() && data.valid_fraction > 0)
    rules.warning("data.valid_fraction", "has no effect: data.valid is given");
  if (!evaluates && (!data.valid.empty() || data.valid_fraction > 0))
    rules.warning(data.valid.empty() ? "data.valid_fraction" : "data.valid",
                  "has no effect on training: train.eval_interval is 0");
  if (!evaluates && rules.given("train.eval_steps"))
    rules.warning("train.eval_steps", "has no effect: train.eval_interval is 0");
}

}  // namespace llmtrain
