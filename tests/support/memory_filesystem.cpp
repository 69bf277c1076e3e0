#include "tests/support/memory_filesystem.hpp"

#include <algorithm>
#include <random>
#include <set>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain::test {

struct MemoryFileSystem::Node {
  FileKind kind = FileKind::kFile;
  std::string bytes, durable_bytes;
  std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
};

namespace {

using Node = MemoryFileSystem::Node;

std::shared_ptr<Node> make_node(FileKind kind) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  return node;
}

Error not_found(const std::string& path) {
  return {ErrorCode::kNotFound, path + " does not exist", ""};
}

// The durable state becomes the current one, for the node and all that its durable entries reach.
void settle(Node& node) {
  node.bytes = node.durable_bytes;
  node.entries = node.durable_entries;
  for (const auto& [name, child] : node.entries) settle(*child);
}

// What the disk wrote by itself before the power went.
void persist_some(Node& node, std::mt19937_64& random) {
  constexpr std::size_t kSector = 16;
  if (random() % 2 == 0) node.durable_entries = node.entries;
  std::string& durable = node.durable_bytes;
  if (random() % 2 == 0) durable.resize(node.bytes.size(), '\0');
  for (std::size_t at = 0; at < std::min(durable.size(), node.bytes.size()); at += kSector)
    if (random() % 2 == 0)
      durable.replace(at, kSector, node.bytes, at, std::min(kSector, durable.size() - at));
  for (const auto& [name, child] : node.entries) persist_some(*child, random);
}

class MemoryReadableFile final : public ReadableFile {
 public:
  explicit MemoryReadableFile(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) override {
    const std::string& bytes = node_->bytes;
    if (offset >= bytes.size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(out.size(), bytes.size() - offset);
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, count, out.begin());
    return count;
  }
  Result<std::uint64_t> size() override { return static_cast<std::uint64_t>(node_->bytes.size()); }

 private:
  std::shared_ptr<Node> node_;
};

}  // namespace

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}

  Status append(std::span<const std::byte> bytes) override {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const Status status = files_.count("write " + std::to_string(bytes.size()) + " bytes to " + path_);
    node_->bytes.append(text, status ? bytes.size() : bytes.size() / 2);
    return status;
  }
  Status sync() override {
    LLMTRAIN_TRY(files_.count("flush " + path_));
    node_->durable_bytes = node_->bytes;
    return ok_status();
  }
  Status close() override { return ok_status(); }

 private:
  MemoryFileSystem& files_;
  std::string path_;
  std::shared_ptr<Node> node_;
};

MemoryFileSystem::MemoryFileSystem() : root_(make_node(FileKind::kDirectory)) {}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::fail_at(std::int64_t n, bool dead_afterwards) {
  fail_at_ = n;
  dead_afterwards_ = dead_afterwards;
}

void MemoryFileSystem::drop_unsynced() {
  settle(*root_);
}

void MemoryFileSystem::drop_some(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  persist_some(*root_, random);
  settle(*root_);
}

std::string& MemoryFileSystem::contents(const std::string& path) {
  const auto node = find(path);
  LLMTRAIN_CHECK(node && node->kind == FileKind::kFile, "no file {}", path);
  return node->bytes;
}

Status MemoryFileSystem::count(const std::string& what) {
  const std::int64_t n = num_operations_++;
  if (fail_at_ < 0 || n < fail_at_ || (n > fail_at_ && !dead_afterwards_)) return ok_status();
  return Error{ErrorCode::kStorage, "cannot " + what + ": injected failure", ""};
}

std::shared_ptr<Node> MemoryFileSystem::find(const std::string& path) const {
  std::shared_ptr<Node> node = root_;
  std::size_t at = 0;
  while (node && at < path.size()) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, slash - at);
    at = slash + 1;
    if (name.empty() || name == ".") continue;
    const auto found = node->entries.find(name);
    node = found == node->entries.end() ? nullptr : found->second;
  }
  return node;
}

Result<std::shared_ptr<Node>> MemoryFileSystem::directory_of(const std::string& path) const {
  auto parent = find(parent_path(path));
  if (!parent || parent->kind != FileKind::kDirectory) return not_found(parent_path(path));
  return parent;
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::open_for_writing(const std::string& path,
                                                                         bool empty_it) {
  LLMTRAIN_TRY(count("create " + path));
  LLMTRAIN_ASSIGN(parent, directory_of(path));
  std::shared_ptr<Node>& node = parent->entries[base_name(path)];
  if (!node) node = make_node(FileKind::kFile);
  if (empty_it) node->bytes.clear();
  return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritableFile>(*this, path, node));
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::create(const std::string& path) {
  return open_for_writing(path, true);
}
Result<std::unique_ptr<WritableFile>> MemoryFileSystem::append(const std::string& path) {
  return open_for_writing(path, false);
}

Result<std::unique_ptr<ReadableFile>> MemoryFileSystem::open(const std::string& path) {
  auto node = find(path);
  if (!node || node->kind != FileKind::kFile) return not_found(path);
  return std::unique_ptr<ReadableFile>(std::make_unique<MemoryReadableFile>(std::move(node)));
}

Result<bool> MemoryFileSystem::make_directory(const std::string& path) {
  LLMTRAIN_TRY(count("make directory " + path));
  LLMTRAIN_ASSIGN(parent, directory_of(path));
  return parent->entries.emplace(base_name(path), make_node(FileKind::kDirectory)).second;
}

Status MemoryFileSystem::sync_directory(const std::string& path) {
  LLMTRAIN_TRY(count("flush directory " + path));
  const auto node = find(path);
  if (!node) return not_found(path);
  node->durable_entries = node->entries;
  return ok_status();
}

Result<bool> MemoryFileSystem::rename_without_replacing(const std::string& from, const std::string& to) {
  LLMTRAIN_TRY(count("rename " + from));
  if (find(to)) return false;
  LLMTRAIN_ASSIGN(source, directory_of(from));
  LLMTRAIN_ASSIGN(target, directory_of(to));
  auto moved = source->entries.extract(base_name(from));
  if (!moved) return not_found(from);
  target->entries[base_name(to)] = moved.mapped();
  return true;
}

Status MemoryFileSystem::replace(const std::string& from, const std::string& to) {
  LLMTRAIN_TRY(count("rename " + from));
  LLMTRAIN_ASSIGN(source, directory_of(from));
  LLMTRAIN_ASSIGN(target, directory_of(to));
  auto moved = source->entries.extract(base_name(from));
  if (!moved) return not_found(from);
  target->entries[base_name(to)] = moved.mapped();
  return ok_status();
}

Status MemoryFileSystem::remove_file(const std::string& path) {
  LLMTRAIN_TRY(count("remove " + path));
  LLMTRAIN_ASSIGN(parent, directory_of(path));
  if (parent->entries.erase(base_name(path)) == 0) return not_found(path);
  return ok_status();
}

Status MemoryFileSystem::remove_directory(const std::string& path) {
  LLMTRAIN_TRY(count("remove directory " + path));
  const auto node = find(path);
  if (!node) return not_found(path);
  if (!node->entries.empty()) return Error{ErrorCode::kStorage, path + " is not empty", ""};
  LLMTRAIN_ASSIGN(parent, directory_of(path));
  parent->entries.erase(base_name(path));
  return ok_status();
}

Result<std::vector<DirectoryEntry>> MemoryFileSystem::list(const std::string& path) {
  const auto node = find(path);
  if (!node || node->kind != FileKind::kDirectory) return not_found(path);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, child] : node->entries) entries.push_back({name, child->kind});
  return entries;
}

Result<std::optional<FileInfo>> MemoryFileSystem::info(const std::string& path) {
  const auto node = find(path);
  if (!node) return std::optional<FileInfo>();
  return std::optional(FileInfo{node->kind, node->bytes.size()});
}

Result<std::uint64_t> MemoryFileSystem::free_space(const std::string&) {
  return free_space_;
}

}  // namespace llmtrain::test
