#include "llmtrain/control/lease_store.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/control/handshake.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/hex.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kClaimLimit = 16 * 1024;
constexpr std::uint64_t kLeaderLimit = 8 * 1024 * 1024;
constexpr const char* kStateNames[] = {"held", "yielded", "ended"};

Error corrupt(const std::string& path) {
  return {ErrorCode::kCorrupt,
          path + " is not what an agent writes",
          "remove it when no agent of this run lives"};
}

Json to_json(const EpochClaim& c) {
  return {{"epoch", c.epoch},
          {"node", c.node},
          {"host", c.host},
          {"address", c.address},
          {"port", c.port},
          {"nonce", c.nonce}};
}

Result<EpochClaim> claim_from(const std::string& text, const std::string& path) {
  const Json j = Json::parse(text, nullptr, false);
  try {
    if (j.is_object())
      return EpochClaim{j.at("epoch").get<std::int64_t>(),
                        j.at("node").get<int>(),
                        j.at("host").get<std::string>(),
                        j.at("address").get<std::string>(),
                        j.at("port").get<int>(),
                        j.at("nonce").get<std::string>()};
  } catch (const Json::exception&) {
  }
  return corrupt(path);
}

Result<LeaseRecord> record_from(const std::string& text, const std::string& path) {
  const Json j = Json::parse(text, nullptr, false);
  try {
    if (j.is_object()) {
      const auto* name =
          std::find(std::begin(kStateNames), std::end(kStateNames), j.at("state").get<std::string>());
      if (name == std::end(kStateNames)) return corrupt(path);
      return LeaseRecord{j.at("epoch").get<std::int64_t>(),
                         j.at("counter").get<std::int64_t>(),
                         static_cast<LeaseState>(name - std::begin(kStateNames))};
    }
  } catch (const Json::exception&) {
  }
  return corrupt(path);
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::int64_t epoch_of(const std::string& name) {
  constexpr std::string_view kPrefix = "epoch-";
  if (name.rfind(kPrefix, 0) != 0) return 0;
  std::int64_t epoch = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, epoch);
  return error == std::errc() && stop == end && epoch > 0 ? epoch : 0;
}

}  // namespace

std::string LeaseStore::path(const std::string& name) const {
  return join_path(directory_, name);
}

// The directory is listed once; from then on the next number is all that can appear.
Result<std::int64_t> LeaseStore::newest_epoch() {
  std::int64_t newest = newest_ ? newest_->epoch : 0;
  if (!listed_) {
    LLMTRAIN_ASSIGN(entries, files_.list(directory_));
    for (const DirectoryEntry& entry : entries) newest = std::max(newest, epoch_of(entry.name));
    listed_ = true;
  }
  while (true) {
    LLMTRAIN_ASSIGN(next, files_.info(path(fmt::format("epoch-{}", newest + 1))));
    if (!next) return newest;
    ++newest;
  }
}

Result<LeaseView> LeaseStore::look() {
  LLMTRAIN_ASSIGN(epoch, newest_epoch());
  LeaseView view;
  if (epoch == 0) return view;
  if (!newest_ || newest_->epoch != epoch) {
    const std::string file = path(fmt::format("epoch-{}", epoch));
    LLMTRAIN_ASSIGN(text, read_file(files_, file, kClaimLimit));
    LLMTRAIN_ASSIGN(claim, claim_from(text, file));
    if (claim.epoch != epoch) return corrupt(file);
    newest_ = std::move(claim);
  }
  view.newest = newest_;
  const std::string file = path("lease");
  auto text = read_file(files_, file, kClaimLimit);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return view;
    return std::move(text).error();
  }
  LLMTRAIN_ASSIGN(record, record_from(*text, file));
  if (record.epoch == epoch) view.lease = record;
  return view;
}

Result<bool> LeaseStore::claim(const EpochClaim& claim) {
  const std::string name = path(fmt::format("epoch-{}", claim.epoch));
  const std::string written = fmt::format("{}.{}", name, to_hex(random_bytes(8)));
  LLMTRAIN_TRY(write(written, line(to_json(claim)), true));
  const int linked = ::link(written.c_str(), name.c_str());
  const int error = errno;
  // A network file system may report EEXIST for a call that it carried out twice: two names mean it was ours.
  struct stat status {};
  const bool ours = linked == 0 || (::stat(written.c_str(), &status) == 0 && status.st_nlink == 2);
  ::unlink(written.c_str());
  if (!ours && error != EEXIST)
    return Error{ErrorCode::kStorage,
                 fmt::format("cannot make {}: {}", name, ::strerrordesc_np(error)),
                 "the run directory must be on a file system with hard links"};
  if (ours) {
    LLMTRAIN_TRY(files_.sync_directory(directory_));
    newest_ = claim;
  }
  return ours;
}

Status LeaseStore::renew(const LeaseRecord& r) {
  const std::string name = path("lease"), written = fmt::format("{}.{}", name, r.epoch);
  LLMTRAIN_TRY(write(
      written,
      line({{"epoch", r.epoch}, {"counter", r.counter}, {"state", kStateNames[static_cast<int>(r.state)]}}),
      false));
  return files_.replace(written, name);
}

Status LeaseStore::publish(const EpochClaim& leader, const Legacy& legacy) {
  Json json = to_json(leader);
  json.erase("nonce");
  for (const RosterEntry& entry : legacy.roster)
    json["members"].push_back({{"node", entry.node}, {"host", entry.host}});
  for (const Exclusion& entry : legacy.excluded)
    json["excluded"].push_back(
        {{"instance", to_hex(entry.instance)}, {"host", entry.host}, {"reason", entry.reason}});
  const std::string name = path("leader.json"), written = fmt::format("{}.{}", name, leader.epoch);
  LLMTRAIN_TRY(write(written, line(json), false));
  return files_.replace(written, name);
}

Result<Legacy> LeaseStore::legacy() {
  const std::string file = path("leader.json");
  auto text = read_file(files_, file, kLeaderLimit);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return Legacy();
    return std::move(text).error();
  }
  const Json j = Json::parse(*text, nullptr, false);
  Legacy legacy;
  try {
    if (j.is_object() && j.contains("members"))
      for (const Json& entry : j.at("members"))
        legacy.roster.push_back({entry.at("node").get<int>(), entry.at("host").get<std::string>()});
    if (j.is_object() && j.contains("excluded"))
      for (const Json& entry : j.at("excluded"))
        legacy.excluded.push_back({from_hex(entry.at("instance").get<std::string>()).value_or(""),
                                   entry.at("host").get<std::string>(),
                                   entry.at("reason").get<std::string>()});
    return legacy;
  } catch (const Json::exception&) {
    return corrupt(file);
  }
}

Status LeaseStore::write(const std::string& path, const std::string& text, bool durable) {
  LLMTRAIN_ASSIGN(file, files_.create(path));
  LLMTRAIN_TRY(file->append(std::as_bytes(std::span(text.data(), text.size()))));
  if (durable) LLMTRAIN_TRY(file->sync());
  return file->close();
}

}  // namespace llmtrain
