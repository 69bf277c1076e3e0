#pragma once

#include <string>

#include "llmtrain/control/lease.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// The lease as files of a directory that all nodes share: epoch-<n>, lease, leader.json.
//
// An epoch is claimed by link(2), which fails when the name exists: it has one leader by construction, on
// network file systems too. Files appear whole or not at all. It knows no clock and judges nothing.
namespace llmtrain {

class LeaseStore {
 public:
  LeaseStore(std::string directory, FileSystem& files) : directory_(std::move(directory)), files_(files) {}

  Result<LeaseView> look();
  Result<bool> claim(const EpochClaim& claim);  // false: somebody else has it
  Status renew(const LeaseRecord& record);
  Status publish(const EpochClaim& leader, const Legacy& legacy);
  Result<Legacy> legacy();  // as the last leader published it; empty when none did

 private:
  Result<std::int64_t> newest_epoch();
  std::string path(const std::string& name) const;
  Status write(const std::string& path, const std::string& text, bool durable);

  std::string directory_;
  FileSystem& files_;
  std::optional<EpochClaim> newest_;
  bool listed_ = false;
};

}  // namespace llmtrain
