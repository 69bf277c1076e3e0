#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/exit_code.hpp"

#include "ckpt.hpp"

// `llmtrain ckpt verify`: is every byte what was written? 0 intact, 1 damage, 65 nothing there.
namespace llmtrain::cli {
namespace {

struct VerifyOptions {
  std::string path;
  bool json = false;
};

void print_report(const VerifyReport& report) {
  if (report.intact()) {
    fmt::print("{}: intact, {} checked\n", report.directory, bytes_text(report.bytes_checked));
    return;
  }
  fmt::print("{}: {} damaged place{}\n",
             report.directory,
             report.damages.size(),
             report.damages.size() == 1 ? "" : "s");
  for (const Damage& damage : report.damages) fmt::print("  {}\n", to_string(damage));
}

nlohmann::ordered_json as_json(const VerifyReport& report) {
  nlohmann::ordered_json damages = nlohmann::ordered_json::array();
  const auto offset = [](const std::optional<std::uint64_t>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  for (const Damage& damage : report.damages)
    damages.push_back({{"file", damage.file},
                       {"begin", offset(damage.begin)},
                       {"end", offset(damage.end)},
                       {"what", damage.what}});
  return {{"directory", report.directory},
          {"intact", report.intact()},
          {"bytes_checked", report.bytes_checked},
          {"damages", std::move(damages)}};
}

int run_verify(const VerifyOptions& options) {
  const auto files = make_posix_filesystem();
  const auto path = resolve_checkpoint_path(*files, options.path);
  if (!path) return fail_ckpt(path.error());
  std::vector<std::string> directories;
  if (path->is_step) {
    directories.push_back(path->directory);
  } else {
    const auto entries = list_checkpoints(*files, path->directory);
    if (!entries) return fail_ckpt(entries.error());
    for (const CheckpointEntry& entry : *entries) directories.push_back(entry.path);
  }
  if (directories.empty())
    return fail_ckpt({ErrorCode::kNoCheckpoint, path->directory + " holds no committed checkpoint", ""});

  bool intact = true;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& directory : directories) {
    const VerifyReport report = verify_checkpoint(*files, directory, VerifyDepth::kFull);
    intact = intact && report.intact();
    if (options.json)
      rows.push_back(as_json(report));
    else
      print_report(report);
  }
  if (options.json) fmt::print("{}\n", rows.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  return to_int(intact ? ExitCode::kDone : ExitCode::kDifferent);
}

}  // namespace

void add_ckpt_verify(CLI::App& group, Runner& run) {
  auto options = std::make_shared<VerifyOptions>();
  auto* const command =
      group.add_subcommand("verify", "Check every byte against its checksum; name each damage");
  command->add_option("path", options->path, "Run directory (all its checkpoints) or step directory")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &run] { run = [options] { return run_verify(*options); }; });
}

}  // namespace llmtrain::cli
