#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/exit_code.hpp"

#include "ckpt.hpp"

// `llmtrain ckpt show`: what a checkpoint says about itself, and its tensors. Reads the manifest only.
namespace llmtrain::cli {
namespace {

struct ShowOptions {
  std::string path;
  bool json = false;
  bool spec = false;
};

void print_text(const CheckpointReader& reader) {
  const TrainState& state = reader.state();
  const auto line = [](const char* key, const auto& value) { fmt::print("{:<18} {}\n", key, value); };
  line("checkpoint", reader.directory());
  line("step", state.step);
  line("next sample", state.next_sample);
  line("tokens", state.tokens);
  line("seed", state.seed);
  line("optimizer steps", state.optimizer_steps);
  line("skipped steps", state.skipped_steps);
  for (const auto& [key, value] : state.extra) line(key.c_str(), value);
  line("saved", time_text(state.saved_at));
  line("by", fmt::format("llmtrain {}, format {}", state.llmtrain_version, kCheckpointFormatVersion));
  line(
      "layout",
      fmt::format("pp{} dp{} sp{} tp{}", state.layout.pp, state.layout.dp, state.layout.sp, state.layout.tp));
  line("computed with", fmt::format("{}, {} threads per rank", state.cpu, state.compute_threads));
  line("epoch", state.epoch);
  line("resumed from",
       state.resumed_from_step < 0 ? "nothing" : fmt::format("step {}", state.resumed_from_step));
  line("previous", state.previous.empty() ? "none" : state.previous);
  line("size", bytes_text(reader.manifest().total_bytes()));
  fmt::print("\n");
  std::size_t width = 4;
  for (const FileRecord& file : reader.manifest().files) width = std::max(width, file.name.size());
  for (const FileRecord& file : reader.manifest().files)
    fmt::print("{:<{}} {:>14} bytes  crc32c {:08x}\n", file.name, width, file.bytes, file.crc32c);
  fmt::print("\n");
  for (const TensorInfo& tensor : reader.tensors()) width = std::max(width, tensor.name.size());
  for (const TensorInfo& tensor : reader.tensors())
    fmt::print("{:<{}} {:<4} {}\n", tensor.name, width, to_string(tensor.dtype), shape_text(tensor.shape));
}

void print_json(const CheckpointReader& reader) {
  using nlohmann::ordered_json;
  const TrainState& state = reader.state();
  ordered_json files = ordered_json::array();
  for (const FileRecord& file : reader.manifest().files)
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", fmt::format("{:08x}", file.crc32c)}});
  ordered_json tensors = ordered_json::array();
  for (const TensorInfo& tensor : reader.tensors())
    tensors.push_back({{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}});
  const ordered_json root = {
      {"directory", reader.directory()},
      {"format_version", kCheckpointFormatVersion},
      {"llmtrain_version", state.llmtrain_version},
      {"step", state.step},
      {"next_sample", state.next_sample},
      {"tokens", state.tokens},
      {"seed", state.seed},
      {"optimizer_steps", state.optimizer_steps},
      {"skipped_steps", state.skipped_steps},
      {"extra", state.extra},
      {"saved_at", state.saved_at},
      {"epoch", state.epoch},
      {"resumed_from_step", state.resumed_from_step},
      {"previous", state.previous},
      {"layout",
       {{"pp", state.layout.pp}, {"dp", state.layout.dp}, {"sp", state.layout.sp}, {"tp", state.layout.tp}}},
      {"cpu", state.cpu},
      {"compute_threads", state.compute_threads},
      {"spec", state.spec_yaml},
      {"files", files},
      {"tensors", tensors}};
  fmt::print("{}\n", root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run_show(const ShowOptions& options) {
  const auto files = make_posix_filesystem();
  const auto directory = resolve_step_directory(*files, options.path);
  if (!directory) return fail_ckpt(directory.error());
  const auto reader = CheckpointReader::open(*files, *directory);
  if (!reader) return fail_ckpt(reader.error());
  if (options.spec)
    fmt::print("{}", reader->state().spec_yaml);
  else if (options.json)
    print_json(*reader);
  else
    print_text(*reader);
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_ckpt_show(CLI::App& group, Runner& run) {
  auto options = std::make_shared<ShowOptions>();
  auto* const command = group.add_subcommand("show", "Print what a checkpoint holds");
  command->add_option("path", options->path, "Run directory (its newest checkpoint) or step directory")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--spec", options->spec, "Print only the resolved job spec it was saved with");
  command->callback([options, &run] { run = [options] { return run_show(*options); }; });
}

}  // namespace llmtrain::cli
