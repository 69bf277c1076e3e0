#include "llmtrain/checkpoint/verify.hpp"

#include <set>

#include <fmt/format.h>

#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "shard_reader.hpp"

namespace llmtrain {
namespace {

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

class Verifier {
 public:
  Verifier(FileSystem& files, const std::string& directory, VerifyDepth depth)
      : files_(files), depth_(depth) {
    report_.directory = directory;
  }

  VerifyReport run() {
    auto text = read_file(files_, join_path(report_.directory, kManifestName), kMaxManifestBytes);
    if (!text) {
      const bool missing = text.error().code == ErrorCode::kNotFound;
      add(kManifestName,
          missing ? "missing: this directory was never committed, or the file was removed"
                  : text.error().message);
      return std::move(report_);
    }
    report_.bytes_checked += text->size();
    if (const ManifestDamage damage = check_manifest_bytes(*text); damage.damaged) {
      report_.damages.push_back({kManifestName, damage.begin, damage.end, damage.what});
      return std::move(report_);
    }
    auto manifest = decode_manifest(*text, kManifestName);
    if (!manifest) {
      add(kManifestName, to_string(manifest.error()));
      return std::move(report_);
    }
    return run(manifest->files);
  }

  VerifyReport run(std::span<const FileRecord> records) {
    check_listing(records);
    for (const FileRecord& record : records) check_file(record);
    return std::move(report_);
  }

 private:
  void add(std::string file, std::string what) {
    report_.damages.push_back({std::move(file), {}, {}, std::move(what)});
  }

  void check_listing(std::span<const FileRecord> records) {
    std::set<std::string> listed = {kManifestName};
    for (const FileRecord& record : records) listed.insert(record.name);
    const auto entries = files_.list(report_.directory);
    if (!entries) return add("", entries.error().message);
    bool is_committed = false;
    for (const DirectoryEntry& entry : *entries) {
      is_committed |= entry.name == kManifestName;
      if (!listed.contains(entry.name))
        add(entry.name, "not listed in the manifest: it does not belong here");
    }
    if (!is_committed) add(kManifestName, "missing: the file was removed");
  }

  void check_file(const FileRecord& record) {
    auto file = VerifiedFile::open(files_, report_.directory, record);
    if (!file) {
      const bool missing = file.error().code == ErrorCode::kNotFound;
      return add(record.name, missing ? "missing" : to_string(file.error()));
    }
    if (depth_ == VerifyDepth::kSizes) return;
    const std::size_t before = report_.damages.size();
    for (std::size_t block = 0; block < record.block_crc32c.size(); ++block) {
      auto damage = file->check_block(block);
      if (!damage) return add(record.name, damage.error().message);
      if (*damage)
        report_.damages.push_back({record.name, (*damage)->begin, (*damage)->end, (*damage)->what});
    }
    report_.bytes_checked += record.bytes;
    if (report_.damages.size() != before || record.pieces.empty()) return;
    // The bytes are those that were written; were they written right?
    auto shard = ShardReader::open(files_, report_.directory, record);
    if (!shard) add(record.name, shard.error().message);
  }

  FileSystem& files_;
  VerifyDepth depth_;
  VerifyReport report_;
};

}  // namespace

std::string to_string(const Damage& damage) {
  return damage.file.empty() ? damage.what : fmt::format("{}: {}", damage.file, damage.what);
}

VerifyReport verify_checkpoint(FileSystem& files, const std::string& directory, VerifyDepth depth) {
  return Verifier(files, directory, depth).run();
}

VerifyReport verify_sizes(FileSystem& files,
                          const std::string& directory,
                          std::span<const FileRecord> records) {
  return Verifier(files, directory, VerifyDepth::kSizes).run(records);
}

}  // namespace llmtrain
