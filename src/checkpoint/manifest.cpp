#include "llmtrain/checkpoint/manifest.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "manifest_checksum.hpp"
#include "record_json.hpp"
#include "strict_json.hpp"

namespace llmtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMaxFiles = 10'000'000;
constexpr int kMaxRanks = 1 << 24;

json state_json(const TrainState& state) {
  return {{"step", state.step},
          {"next_sample", state.next_sample},
          {"tokens", state.tokens},
          {"seed", state.seed},
          {"optimizer_steps", state.optimizer_steps},
          {"skipped_steps", state.skipped_steps},
          {"extra", state.extra}};
}

json history_json(const TrainState& state) {
  return {{"epoch", state.epoch},
          {"resumed_from_step", state.resumed_from_step},
          {"previous", state.previous},
          {"saved_at", state.saved_at},
          {"llmtrain_version", state.llmtrain_version}};
}

json machine_json(const TrainState& state) {
  return {{"pp", state.layout.pp},
          {"dp", state.layout.dp},
          {"sp", state.layout.sp},
          {"tp", state.layout.tp},
          {"cpu", state.cpu},
          {"compute_threads", state.compute_threads}};
}

void read_state(JsonFields fields, const json& value, TrainState& state, Status& status) {
  state.step = fields.integer("step", 0, kMaxCount);
  state.next_sample = fields.integer("next_sample", 0, kMaxCount);
  state.tokens = fields.integer("tokens", 0, kMaxCount);
  state.seed = fields.natural("seed");
  state.optimizer_steps = fields.integer("optimizer_steps", 0, kMaxCount);
  state.skipped_steps = fields.integer("skipped_steps", 0, kMaxCount);
  fields.object("extra");
  if (fields.ok())
    for (const auto& [key, text] : value["extra"].items()) {
      if (!text.is_string())
        fields.fail(fmt::format("extra \"{}\" is not a string", key));
      else
        state.extra[key] = text.get<std::string>();
    }
  if (!fields.ok()) status = fields.error();
}

void read_history(JsonFields fields, TrainState& state, Status& status) {
  state.epoch = fields.integer("epoch", 0, kMaxCount);
  state.resumed_from_step = fields.integer("resumed_from_step", -1, kMaxCount);
  state.previous = fields.text("previous");
  state.saved_at = fields.integer("saved_at", 0, kMaxCount);
  state.llmtrain_version = fields.text("llmtrain_version");
  if (!fields.ok()) status = fields.error();
}

void read_machine(JsonFields fields, TrainState& state, Status& status) {
  state.layout.pp = static_cast<int>(fields.integer("pp", 1, kMaxRanks));
  state.layout.dp = static_cast<int>(fields.integer("dp", 1, kMaxRanks));
  state.layout.sp = static_cast<int>(fields.integer("sp", 1, kMaxRanks));
  state.layout.tp = static_cast<int>(fields.integer("tp", 1, kMaxRanks));
  state.cpu = fields.text("cpu");
  state.compute_threads = static_cast<int>(fields.integer("compute_threads", 0, kMaxRanks));
  if (!fields.ok()) status = fields.error();
}

Status check_format(JsonFields& root, const std::string& origin) {
  const std::string format = root.text("format");
  const std::int64_t version = root.integer("format_version", 0, kMaxCount);
  if (!root.ok()) return root.error();
  if (format != "llmtrain-checkpoint")
    return Error{
        ErrorCode::kCorrupt, fmt::format("{}: format \"{}\" is not llmtrain-checkpoint", origin, format), ""};
  if (version != kCheckpointFormatVersion)
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}: format version {}; this llmtrain reads version {}",
                             origin,
                             version,
                             kCheckpointFormatVersion),
                 "use the llmtrain that wrote it"};
  return ok_status();
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  std::string text = "{\n";
  const auto line = [&](const char* key, const json& value) {
    // Text that is not UTF-8 (a path in the spec) is kept as far as JSON can.
    text += fmt::format(" \"{}\": {},\n", key, value.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  line("format", "llmtrain-checkpoint");
  line("format_version", kCheckpointFormatVersion);
  line("state", state_json(manifest.state));
  line("history", history_json(manifest.state));
  line("machine", machine_json(manifest.state));
  line("spec", manifest.state.spec_yaml);
  line("block_bytes", kBlockBytes);
  text += " \"files\": [";
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    text += fmt::format("{}\n  {}", i == 0 ? "" : ",", to_json(manifest.files[i]).dump());
  text += "\n ],\n";
  return with_manifest_checksum(std::move(text));
}

Result<Manifest> decode_manifest(std::string_view text, const std::string& origin) {
  if (const ManifestDamage damage = check_manifest_bytes(text); damage.damaged)
    return Error{ErrorCode::kCorrupt, fmt::format("{}: {}", origin, damage.what), ""};
  constexpr int kMaxDepth = 8;
  LLMTRAIN_ASSIGN(root, parse_strict_json(text, kMaxDepth, origin));
  JsonFields fields(root, origin);
  LLMTRAIN_TRY(check_format(fields, origin));

  Manifest manifest;
  Status status = ok_status();
  read_state(
      JsonFields(fields.object("state"), origin + ": state"), fields.object("state"), manifest.state, status);
  LLMTRAIN_TRY(status);
  read_history(JsonFields(fields.object("history"), origin + ": history"), manifest.state, status);
  LLMTRAIN_TRY(status);
  read_machine(JsonFields(fields.object("machine"), origin + ": machine"), manifest.state, status);
  LLMTRAIN_TRY(status);
  manifest.state.spec_yaml = fields.text("spec");
  if (fields.natural("block_bytes") != kBlockBytes)
    fields.fail(fmt::format("block_bytes is not {}", kBlockBytes));
  for (const json& value : fields.array("files", kMaxFiles)) {
    LLMTRAIN_ASSIGN(record, file_record_of(value, origin));
    if (record.name == kManifestName ||
        (!manifest.files.empty() && record.name <= manifest.files.back().name))
      fields.fail(fmt::format("\"{}\" is listed twice or out of order", record.name));
    manifest.files.push_back(std::move(record));
  }
  if (!fields.ok()) return fields.error();
  if (const auto tensors = manifest.tensors(); !tensors)
    return Error{ErrorCode::kCorrupt, fmt::format("{}: {}", origin, tensors.error().message), ""};
  return manifest;
}

std::uint64_t Manifest::total_bytes() const {
  std::uint64_t total = 0;
  for (const FileRecord& file : files) total += file.bytes;
  return total;
}

Result<std::vector<TensorInfo>> Manifest::tensors() const {
  struct Found {
    TensorInfo info;
    std::vector<Box> boxes;
  };
  std::map<std::string, Found> found;
  for (const FileRecord& file : files)
    for (const PieceRecord& piece : file.pieces) {
      Found& tensor = found[piece.name];
      const TensorInfo info{piece.name, piece.dtype, piece.shape};
      if (tensor.boxes.empty()) tensor.info = info;
      if (tensor.info != info)
        return Error{ErrorCode::kCorrupt,
                     fmt::format("the pieces of tensor \"{}\" disagree on its type or shape", piece.name),
                     ""};
      tensor.boxes.push_back(piece.box);
    }
  std::vector<TensorInfo> infos;
  for (auto& [name, tensor] : found) {
    if (!tiles(tensor.info.shape, tensor.boxes))
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the {} pieces of tensor \"{}\" do not cover {} exactly",
                               tensor.boxes.size(),
                               name,
                               shape_text(tensor.info.shape)),
                   "a rank's pieces are missing or overlap"};
    infos.push_back(std::move(tensor.info));
  }
  return infos;
}

}  // namespace llmtrain
