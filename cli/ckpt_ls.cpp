#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "ckpt.hpp"

// `llmtrain ckpt ls`: the checkpoints of a run, newest first. Reads manifests and sizes, no data.
namespace llmtrain::cli {
namespace {

struct LsOptions {
  std::string path;
  bool json = false;
};

std::string state_of(const CheckpointEntry& entry) {
  if (!entry.usable()) return "damaged: " + entry.problem;
  return entry.accepted ? "committed" : "committed, off the accepted history";
}

void print_table(const std::vector<CheckpointEntry>& entries) {
  fmt::print("{:>10} {:>6} {:>11} {:>8}  {:<21} {:<22} {}\n",
             "step",
             "epoch",
             "size",
             "tensors",
             "saved",
             "name",
             "state");
  for (const CheckpointEntry& entry : entries) {
    const bool known = entry.readable;
    fmt::print("{:>10} {:>6} {:>11} {:>8}  {:<21} {:<22} {}\n",
               entry.step,
               known ? std::to_string(entry.epoch) : "?",
               known ? bytes_text(entry.bytes) : "?",
               known ? std::to_string(entry.num_tensors) : "?",
               known ? time_text(entry.saved_at) : "?",
               entry.name,
               state_of(entry));
  }
}

void print_json(const std::vector<CheckpointEntry>& entries) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckpointEntry& entry : entries)
    rows.push_back({{"step", entry.step},
                    {"epoch", entry.epoch},
                    {"name", entry.name},
                    {"path", entry.path},
                    {"bytes", entry.bytes},
                    {"tensors", entry.num_tensors},
                    {"saved_at", entry.saved_at},
                    {"resumed_from_step", entry.resumed_from_step},
                    {"accepted", entry.accepted},
                    {"problem", entry.problem}});
  fmt::print("{}\n", rows.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run_ls(const LsOptions& options) {
  const auto files = make_posix_filesystem();
  const auto path = resolve_checkpoint_path(*files, options.path);
  if (!path) return fail_ckpt(path.error());
  auto entries = list_checkpoints(*files, path->is_step ? parent_path(path->directory) : path->directory);
  if (!entries) return fail_ckpt(entries.error());
  if (path->is_step)
    std::erase_if(*entries,
                  [&](const CheckpointEntry& entry) { return entry.name != base_name(path->directory); });
  if (options.json) {
    print_json(*entries);
  } else if (!entries->empty()) {
    print_table(*entries);
  }
  if (entries->empty())
    return fail_ckpt({ErrorCode::kNoCheckpoint, path->directory + " holds no committed checkpoint", ""});
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_ckpt_ls(CLI::App& group, Runner& run) {
  auto options = std::make_shared<LsOptions>();
  auto* const command = group.add_subcommand("ls", "List the checkpoints of a run, newest first");
  command->add_option("path", options->path, "Run directory or step directory")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &run] { run = [options] { return run_ls(*options); }; });
}

}  // namespace llmtrain::cli
