#include "llmtrain/monitor/status_file.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

Json to_object(const RankStatus& rank) {
  return {{"rank", rank.rank},
          {"pid", rank.pid},
          {"phase", rank.phase},
          {"step", rank.step},
          {"micro_batch", rank.micro_batch},
          {"heartbeat_age_s", finite(rank.heartbeat_age_s)}};
}

Json to_object(const NodeStatus& node) {
  Json ranks = Json::array();
  for (const RankStatus& rank : node.ranks) ranks.push_back(to_object(rank));
  return {{"node", node.node},
          {"host", node.host},
          {"pid", node.pid},
          {"control", node.control},
          {"ranks", std::move(ranks)}};
}

// Takes values out of objects by key and remembers the first that has the wrong type.
class Reader {
 public:
  template <class T>
  void read(const Json& object, const char* key, T& value) {
    const auto found = object.find(key);
    if (found == object.end()) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (found->is_string()) return void(value = found->template get<std::string>());
    } else if constexpr (std::is_floating_point_v<T>) {
      if (found->is_number()) return void(value = found->template get<T>());
    } else {
      if (found->is_number_integer()) return void(value = found->template get<T>());
    }
    if (problem_.empty()) problem_ = fmt::format("key `{}` has the wrong type", key);
  }

  const Json& list(const Json& object, const char* key) {
    static const Json kNone = Json::array();
    const auto found = object.find(key);
    if (found == object.end()) return kNone;
    if (found->is_array()) return *found;
    if (problem_.empty()) problem_ = fmt::format("key `{}` is no list", key);
    return kNone;
  }

  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

RankStatus rank_from(Reader& reader, const Json& object) {
  RankStatus rank;
  reader.read(object, "rank", rank.rank);
  reader.read(object, "pid", rank.pid);
  reader.read(object, "phase", rank.phase);
  reader.read(object, "step", rank.step);
  reader.read(object, "micro_batch", rank.micro_batch);
  reader.read(object, "heartbeat_age_s", rank.heartbeat_age_s);
  return rank;
}

NodeStatus node_from(Reader& reader, const Json& object) {
  NodeStatus node;
  reader.read(object, "node", node.node);
  reader.read(object, "host", node.host);
  reader.read(object, "pid", node.pid);
  reader.read(object, "control", node.control);
  for (const Json& rank : reader.list(object, "ranks"))
    if (rank.is_object()) node.ranks.push_back(rank_from(reader, rank));
  return node;
}

}  // namespace

std::string to_json(const StatusFile& status) {
  Json nodes = Json::array();
  for (const NodeStatus& node : status.nodes) nodes.push_back(to_object(node));
  const Json root = {{"version", kStatusFileVersion},
                     {"counter", status.counter},
                     {"time", finite(status.time)},
                     {"epoch", status.epoch},
                     {"incarnation", status.incarnation},
                     {"state", status.state},
                     {"step", status.step},
                     {"total_steps", status.total_steps},
                     {"restarts", status.restarts},
                     {"max_restarts", status.max_restarts},
                     {"nodes", std::move(nodes)}};
  return root.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<StatusFile> status_file_from_json(std::string_view text, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::kCorrupt, fmt::format("{}: {}", origin, what), {}};
  };
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return refuse("not a JSON object");
  Reader reader;
  int version = 0;
  reader.read(root, "version", version);
  if (version != kStatusFileVersion)
    return refuse(fmt::format("version {} is not known; this program reads {}", version, kStatusFileVersion));
  StatusFile status;
  reader.read(root, "counter", status.counter);
  reader.read(root, "time", status.time);
  reader.read(root, "epoch", status.epoch);
  reader.read(root, "incarnation", status.incarnation);
  reader.read(root, "state", status.state);
  reader.read(root, "step", status.step);
  reader.read(root, "total_steps", status.total_steps);
  reader.read(root, "restarts", status.restarts);
  reader.read(root, "max_restarts", status.max_restarts);
  for (const Json& node : reader.list(root, "nodes"))
    if (node.is_object()) status.nodes.push_back(node_from(reader, node));
  if (!reader.problem().empty()) return refuse(reader.problem());
  return status;
}

Status write_status_file(FileSystem& files, const std::string& path, const StatusFile& status) {
  const std::string text = to_json(status);
  const std::string beside = path + ".tmp";
  LLMTRAIN_ASSIGN(file, files.create(beside));
  LLMTRAIN_TRY(file->append(std::as_bytes(std::span(text))));
  LLMTRAIN_TRY(file->close());
  return files.replace(beside, path);
}

Result<StatusFile> read_status_file(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(text, read_file(files, path, kMaxStatusFileBytes));
  return status_file_from_json(text, path);
}

}  // namespace llmtrain
