#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/diff.hpp"
#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/exit_code.hpp"

#include "ckpt.hpp"

// `llmtrain ckpt diff A B`: the same training state, bit for bit? The last line says `identical` (exit 0)
// or `different: ...` (exit 1).
namespace llmtrain::cli {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  bool json = false;
};

void print_table(const CheckpointDiff& diff) {
  for (const ValueDifference& value : diff.values)
    fmt::print("{}: {} and {}\n", value.name, value.a, value.b);
  if (diff.tensors.empty()) return;
  std::size_t width = 6;
  for (const TensorDifference& tensor : diff.tensors) width = std::max(width, tensor.name.size());
  fmt::print("{:<{}} {:>12} {:>12} {:>24}\n", "tensor", width, "max abs", "max rel", "elements that differ");
  for (const TensorDifference& tensor : diff.tensors) {
    if (!tensor.problem.empty()) {
      fmt::print("{:<{}} {}\n", tensor.name, width, tensor.problem);
      continue;
    }
    fmt::print("{:<{}} {:>12.4g} {:>12.4g} {:>24}\n",
               tensor.name,
               width,
               tensor.max_abs,
               tensor.max_rel,
               fmt::format("{} of {}", tensor.num_different, tensor.num_elements));
  }
}

// Numbers that are not finite become null, as JSON has none.
void print_json(const CheckpointDiff& diff) {
  using nlohmann::ordered_json;
  ordered_json values = ordered_json::array();
  for (const ValueDifference& value : diff.values)
    values.push_back({{"name", value.name}, {"a", value.a}, {"b", value.b}});
  ordered_json tensors = ordered_json::array();
  for (const TensorDifference& tensor : diff.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"problem", tensor.problem},
                       {"elements", tensor.num_elements},
                       {"different", tensor.num_different},
                       {"max_abs", tensor.max_abs},
                       {"max_rel", tensor.max_rel}});
  const ordered_json root = {{"identical", diff.identical()},
                             {"verdict", diff.verdict()},
                             {"tensors_compared", diff.num_tensors},
                             {"values", values},
                             {"tensors", tensors}};
  fmt::print("{}\n", root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<CheckpointReader> open_newest(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(directory, resolve_step_directory(files, path));
  return CheckpointReader::open(files, directory);
}

int run_diff(const DiffOptions& options) {
  const auto files = make_posix_filesystem();
  auto a = open_newest(*files, options.a);
  if (!a) return fail_ckpt(a.error());
  auto b = open_newest(*files, options.b);
  if (!b) return fail_ckpt(b.error());
  const auto diff = diff_checkpoints(*a, *b);
  if (!diff) return fail_ckpt(diff.error());
  if (options.json) {
    print_json(*diff);
  } else {
    fmt::print("{} (step {}) and {} (step {}): {} tensors\n",
               a->directory(),
               a->state().step,
               b->directory(),
               b->state().step,
               diff->num_tensors);
    print_table(*diff);
    fmt::print("{}\n", diff->verdict());
  }
  return to_int(diff->identical() ? ExitCode::kDone : ExitCode::kDifferent);
}

}  // namespace

void add_ckpt_diff(CLI::App& group, Runner& run) {
  auto options = std::make_shared<DiffOptions>();
  auto* const command = group.add_subcommand("diff", "Compare two checkpoints bit for bit");
  command->add_option("a", options->a, "Run directory (its newest checkpoint) or step directory")->required();
  command->add_option("b", options->b, "Run directory (its newest checkpoint) or step directory")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &run] { run = [options] { return run_diff(*options); }; });
}

}  // namespace llmtrain::cli
