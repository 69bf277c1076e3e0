#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/checkpoint/writer.hpp"

namespace llmtrain::test {

// A small training state with every kind of tensor, as `world_size` ranks would save it.
struct Sample {
  std::vector<TensorInfo> infos;
  std::vector<std::string> bytes;  // one per info

  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, int salt) {
    std::string values(static_cast<std::size_t>(volume(shape)) * bytes_of(dtype), '\0');
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<char>((i * 31 + i / 7 + static_cast<std::size_t>(salt)) & 0x3f);
    infos.push_back({name, dtype, std::move(shape)});
    bytes.push_back(std::move(values));
  }
  TensorPiece piece(std::size_t i) const {
    return whole_tensor(infos[i], std::as_bytes(std::span(bytes[i])));
  }
};

inline Sample make_sample(int salt = 0) {
  Sample sample;
  sample.add("model.embed_tokens.weight", DType::kBf16, {7, 4}, salt);
  sample.add("model.norm.weight", DType::kFp32, {4}, salt + 1);
  sample.add("master.model.embed_tokens.weight", DType::kFp32, {7, 4}, salt + 2);
  sample.add("exp_avg.model.embed_tokens.weight", DType::kFp32, {7, 4}, salt + 3);
  sample.add("exp_avg_sq.model.embed_tokens.weight", DType::kFp32, {7, 4}, salt + 4);
  sample.add("momentum.model.norm.weight", DType::kFp64, {}, salt + 5);
  return sample;
}

inline TrainState make_state(std::int64_t step = 5) {
  TrainState state;
  state.step = step;
  state.next_sample = step * 8;
  state.tokens = step * 8 * 16;
  state.seed = 1234;
  state.optimizer_steps = step;
  state.extra = {{"note", "small"}};
  state.spec_yaml = "version: 1\nrun:\n  seed: 1234\n";
  state.layout = {.dp = 2};
  state.cpu = "avx2";
  state.compute_threads = 1;
  state.llmtrain_version = "0.1.0";
  state.saved_at = 1'700'000'000;
  return state;
}

// The shard files of one rank: tensors split over the ranks by assign_writers, but the first moment cut
// between ranks 0 and 1, as a sharded optimizer would.
inline std::vector<ShardFile> shards_of(const Sample& sample, int rank, int world_size) {
  std::vector<std::int64_t> sizes;
  for (const std::string& bytes : sample.bytes) sizes.push_back(static_cast<std::int64_t>(bytes.size()));
  const std::vector<int> writers = assign_writers(sizes, world_size);
  std::vector<ShardFile> shards = {{"weights", {}}, {"optimizer", {}}};
  for (std::size_t i = 0; i < sample.infos.size(); ++i) {
    TensorPiece piece = sample.piece(i);
    std::vector<TensorPiece>& pieces = shards[piece.name.starts_with("model.") ? 0 : 1].pieces;
    if (piece.name.starts_with(kFirstMomentPrefix) && world_size > 1) {
      if (rank > 1) continue;
      const std::int64_t rows = piece.global_shape[0];
      const std::int64_t cut = rows / 2;
      const std::size_t row_bytes = piece.bytes.size() / static_cast<std::size_t>(rows);
      piece.offset[0] = rank == 0 ? 0 : cut;
      piece.extent[0] = rank == 0 ? cut : rows - cut;
      piece.bytes = piece.bytes.subspan(static_cast<std::size_t>(piece.offset[0]) * row_bytes,
                                        static_cast<std::size_t>(piece.extent[0]) * row_bytes);
      pieces.push_back(std::move(piece));
    } else if (writers[i] == rank) {
      pieces.push_back(std::move(piece));
    }
  }
  return shards;
}

// All ranks write, rank 0 commits; records travel as text, as over the control channel.
inline Result<Committed> save(FileSystem& files, SaveTarget target, const Sample& sample, TrainState state) {
  CommitRequest request;
  for (target.rank = 0; target.rank < target.world_size; ++target.rank) {
    LLMTRAIN_ASSIGN(records, write_shards(files, target, shards_of(sample, target.rank, target.world_size)));
    LLMTRAIN_ASSIGN(received,
                    decode_file_records(encode_file_records(records), "rank " + std::to_string(target.rank)));
    request.records.insert(request.records.end(), received.begin(), received.end());
  }
  target.rank = 0;
  request.state = std::move(state);
  request.extra_files = {{"tokenizer.json", "{\"model\": \"bytes\"}\n"}};
  request.expected = sample.infos;
  return commit(files, target, std::move(request));
}

inline SaveTarget target_of(const std::string& checkpoints_dir,
                            std::int64_t step,
                            std::int64_t epoch = 0,
                            int world_size = 2) {
  return {checkpoints_dir, step, epoch, 0, world_size};
}

}  // namespace llmtrain::test
