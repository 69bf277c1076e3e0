#include "llmtrain/checkpoint/reader.hpp"

#include <random>

#include "llmtrain/core/check.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr char kCheckpoints[] = "checkpoints";

// Every element is its own flat index.
std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

// The elements of a box of `counted` values.
std::vector<float> cut(const std::vector<std::int64_t>& shape,
                       const std::vector<float>& values,
                       const Box& box) {
  std::vector<float> out(static_cast<std::size_t>(volume(box.extent)));
  for_each_run(box, whole(shape), box, [&](const ContiguousRun& run) {
    std::copy_n(values.begin() + run.from, run.count, out.begin() + run.to);
    return true;
  });
  return out;
}

}  // namespace

TEST_CASE("reader: pieces written by any layout are read by any other", "[checkpoint]") {
  const std::vector<std::int64_t> shape = {101, 30};  // no multiple of anything (C16)
  const std::vector<float> values = counted(volume(shape));
  std::vector<std::vector<Box>> layouts = {{whole(shape)}};
  layouts.push_back({{{0, 0}, {51, 30}}, {{51, 0}, {50, 30}}});    // rows
  layouts.push_back({{{0, 0}, {101, 15}}, {{0, 15}, {101, 15}}});  // columns
  layouts.emplace_back();                                          // flat shards (C17)
  for (int rank = 0; rank < 4; ++rank)
    for (const Box& box : boxes_of_flat_range(shape, 3030 * rank / 4, 3030 * (rank + 1) / 4))
      layouts.back().push_back(box);

  for (const std::vector<Box>& written : layouts) {
    MemoryFileSystem files;
    CommitRequest request;
    SaveTarget target{kCheckpoints, 1, 0, 0, static_cast<int>(written.size())};
    for (const Box& box : written) {
      const std::vector<float> part = cut(shape, values, box);
      const ShardFile shard{
          "optimizer",
          {{"exp_avg.w", DType::kFp32, shape, box.offset, box.extent, std::as_bytes(std::span(part))}}};
      const auto records = write_shards(files, target, std::span(&shard, 1));
      REQUIRE(records);
      request.records.insert(request.records.end(), records->begin(), records->end());
      ++target.rank;
    }
    REQUIRE(commit(files, target, request));
    auto reader = CheckpointReader::open(files, "checkpoints/step-00000001");
    REQUIRE(reader);
    for (const std::vector<Box>& wanted : layouts)
      for (const Box& box : wanted) {
        std::vector<float> out(static_cast<std::size_t>(volume(box.extent)), -1);
        REQUIRE(reader->read("exp_avg.w", DType::kFp32, box, std::as_writable_bytes(std::span(out))));
        CHECK(out == cut(shape, values, box));
      }
  }
}

TEST_CASE("reader: tensors larger than a block, at any offset", "[checkpoint]") {
  const std::vector<std::int64_t> shape = {700'001};
  const std::vector<float> values = counted(shape[0]);
  MemoryFileSystem files;
  const ShardFile shard{"weights",
                        {whole_tensor({"a", DType::kFp32, shape}, std::as_bytes(std::span(values))),
                         whole_tensor({"b", DType::kFp32, shape}, std::as_bytes(std::span(values)))}};
  const auto records = write_shards(files, target_of(kCheckpoints, 1), std::span(&shard, 1));
  REQUIRE(records);
  CHECK(records->front().block_crc32c.size() == 6);
  CommitRequest request;
  request.records = *records;
  REQUIRE(commit(files, target_of(kCheckpoints, 1), request));
  auto reader = CheckpointReader::open(files, "checkpoints/step-00000001");
  REQUIRE(reader);
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const Box box{{static_cast<std::int64_t>(random() % 700'000)},
                  {1 + static_cast<std::int64_t>(random() % 400'000)}};
    if (!is_inside(box, shape)) continue;
    std::vector<float> out(static_cast<std::size_t>(box.extent[0]));
    REQUIRE(reader->read(trial % 2 ? "a" : "b", DType::kFp32, box, std::as_writable_bytes(std::span(out))));
    CHECK(std::equal(out.begin(), out.end(), values.begin() + box.offset[0]));
  }
}

TEST_CASE("reader: a load that does not fit is refused by name (C14)", "[checkpoint]") {
  MemoryFileSystem files;
  const Sample sample = make_sample();
  REQUIRE(save(files, target_of(kCheckpoints, 5), sample, make_state(5)));
  auto reader = CheckpointReader::open(files, "checkpoints/step-00000005");
  REQUIRE(reader);
  CHECK(reader->expect(sample.infos));

  std::vector<TensorInfo> wanted = sample.infos;
  wanted[0].shape = {8, 4};
  wanted[1].dtype = DType::kFp64;
  wanted[2].name = "master.other";
  const Status status = reader->expect(wanted);
  REQUIRE(!status);
  for (const char* line : {"\"model.embed_tokens.weight\" has shape [7, 4]; [8, 4] is needed",
                           "\"model.norm.weight\" is fp32; fp64 is needed",
                           "missing tensor \"master.other\"",
                           "extra tensor \"master.model.embed_tokens.weight\""})
    CHECK(status.error().message.find(line) != std::string::npos);
  CHECK(compare_tensors(reader->tensors(), wanted).size() == 4);  // what a lenient load prints

  std::vector<std::byte> out(16);
  CHECK(!reader->read("model.norm.weight", DType::kBf16, out));
  CHECK(!reader->read("no.such", DType::kFp32, out));
  CHECK(!reader->read("model.norm.weight", DType::kFp32, Box{{2}, {4}}, out));
  CHECK_THROWS_AS(reader->read("model.norm.weight", DType::kFp32, Box{{0}, {2}}, out), CheckFailure);
}

TEST_CASE("commit: pieces that are missing, doubled or not the model's are not committed", "[checkpoint]") {
  MemoryFileSystem files;
  const Sample sample = make_sample();
  const SaveTarget target = target_of(kCheckpoints, 5);
  CommitRequest request;
  for (int rank = 0; rank < 2; ++rank) {
    SaveTarget mine = target;
    mine.rank = rank;
    const auto records = write_shards(files, mine, shards_of(sample, rank, 2));
    REQUIRE(records);
    request.records.insert(request.records.end(), records->begin(), records->end());
  }
  request.expected = sample.infos;
  const auto refused = [&](CommitRequest bad, const std::string& why) {
    const auto result = commit(files, target, std::move(bad));
    REQUIRE(!result);
    INFO(result.error().message);
    CHECK(result.error().message.find(why) != std::string::npos);
    CHECK(!files.info("checkpoints/step-00000005").value());
  };
  CommitRequest bad = request;
  bad.expected.push_back({"model.more", DType::kFp32, {3}});
  refused(bad, "missing tensor \"model.more\"");
  bad = request;
  bad.records.push_back(bad.records.back());
  refused(bad, "two ranks reported");
  bad = request;
  bad.records[0].pieces[0].box.extent[0] = 2;
  refused(bad, "do not cover");
  bad = request;
  bad.records[0].bytes += 1;
  refused(bad, "should have");
  bad = request;
  bad.extra_files = {{"../evil", "x"}};
  refused(bad, "cannot be a file of a checkpoint");
  bad = request;
  bad.may_commit = [] { return Status(Error{ErrorCode::kHeld, "epoch 7 has taken over", ""}); };
  refused(bad, "epoch 7 has taken over");
}

TEST_CASE("writers: tensors are split by bytes, evenly and alike on every rank", "[checkpoint]") {
  const std::vector<std::int64_t> sizes = {100, 1, 1, 1, 50, 50, 1};
  const std::vector<int> writers = assign_writers(sizes, 2);
  CHECK(writers == assign_writers(sizes, 2));
  std::int64_t load[2] = {0, 0};
  for (std::size_t i = 0; i < sizes.size(); ++i) load[writers[i]] += sizes[i];
  CHECK(load[0] == 102);
  CHECK(load[1] == 102);
  CHECK(assign_writers({}, 3).empty());
  CHECK(assign_writers(sizes, 1) == std::vector<int>(7, 0));
}
