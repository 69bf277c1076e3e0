#include "llmtrain/train/checkpointer.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/checkpoint/retention.hpp"
#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/comm/all_gather_bytes.hpp"
#include "llmtrain/control/epoch_fence.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/monitor/recent_steps.hpp"
#include "llmtrain/train/compute_setup.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/shard_report.hpp"

namespace llmtrain {
namespace {

// Keys in TrainState::extra.
constexpr char kEvaluationOwed[] = "evaluation_owed";
constexpr char kLossScale[] = "loss_scale";  // value, clean steps, overflows left

std::map<std::string, std::string> extra_state(const Progress& progress) {
  std::map<std::string, std::string> extra;
  if (progress.evaluation_owed) extra[kEvaluationOwed] = "true";
  if (const auto& scale = progress.loss_scale)
    extra[kLossScale] = fmt::format("{} {} {}", scale->value, scale->clean_steps, scale->overflows_left);
  return extra;
}

std::optional<LossScale> loss_scale_of(const TrainState& state) {
  const auto found = state.extra.find(kLossScale);
  if (found == state.extra.end()) return std::nullopt;
  LossScale scale;
  std::istringstream text(found->second);
  if (text >> scale.value >> scale.clean_steps >> scale.overflows_left && scale.value > 0) return scale;
  throw ErrorException(
      {ErrorCode::kCorrupt,
       fmt::format("step {}: its loss scale `{}` is not three numbers", state.step, found->second),
       {}});
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Checkpointer::Checkpointer(RankContext& context,
                           const std::vector<ParamSpec>& table,
                           FlatParameters& parameters,
                           Optimizer& optimizer,
                           MeshComms& comms,
                           std::vector<ExtraFile> extra_files)
    : context_(context),
      parameters_(parameters),
      optimizer_(optimizer),
      world_(comms.world()),
      replicas_(parameters.zero().parts() > 1 ? comms.shard_replicas() : comms.gradient()),
      extra_files_(std::move(extra_files)),
      expected_(tensor_infos(table, parameters.compute_type(), optimizer.state_names())),
      tensors_(name_tensors(parameters, optimizer)),
      checkpoints_dir_(RunDir(context.request.run_dir).checkpoints().string()) {}

std::vector<ShardFile> Checkpointer::shards_of_this_rank() const {
  std::vector<std::int64_t> sizes;  // nothing to write where another rank stands for the part
  sizes.reserve(tensors_.size());
  for (const NamedTensor& tensor : tensors_) sizes.push_back(tensor.is_counted ? tensor.owned_bytes() : 0);
  const std::vector<int> writers = assign_writers(sizes, replicas_.size());

  std::vector<ShardFile> shards = {{.kind = kWeightsKind, .pieces = {}},
                                   {.kind = kOptimizerKind, .pieces = {}}};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const NamedTensor& tensor = tensors_[i];
    if (!tensor.is_counted || writers[i] != replicas_.rank()) continue;
    for (const OwnedBox& part : tensor.owned)
      shards[tensor.kind == kWeightsKind ? 0 : 1].pieces.push_back({.name = tensor.info.name,
                                                                    .dtype = tensor.info.dtype,
                                                                    .global_shape = tensor.info.shape,
                                                                    .offset = part.box.offset,
                                                                    .extent = part.box.extent,
                                                                    .bytes = bytes_of(part.values)});
  }
  return shards;
}

Status Checkpointer::save(const Progress& progress) {
  if (progress.step == saved_step_) return ok_status();
  const auto start = std::chrono::steady_clock::now();
  context_.black_box->enter(Phase::kSaving);
  context_.faults.at("save", progress.step);
  const SaveTarget target{.checkpoints_dir = checkpoints_dir_,
                          .step = progress.step,
                          .epoch = context_.request.incarnation,
                          .rank = world_.rank(),
                          .world_size = world_.size()};
  const auto files = context_.faults.filesystem(progress.step);
  const std::vector<ShardFile> shards = shards_of_this_rank();
  const auto written = write_shards(*files, target, shards);
  const auto reports = all_gather_bytes(world_, encode_shard_report(written));

  // Only the first rank knows whether the rename took place: it tells the others.
  std::string outcome;
  if (world_.rank() == 0) {
    const auto committed = commit_shards(*files, target, progress, reports);
    outcome = encode_status(committed ? ok_status() : Status(committed.error()));
    if (committed) {
      previous_ = committed->name;
      context_.events.emit(CheckpointSaved{.step = progress.step,
                                           .path = committed->path,
                                           .bytes = static_cast<std::int64_t>(committed->bytes),
                                           .ms = milliseconds_since(start)});
      context_.faults.at("commit_done", progress.step);
      let_go_of_old_ones();
    } else if (committed.error().code != ErrorCode::kHeld) {  // who is fenced off touches nothing
      (void)discard(*make_posix_filesystem(), target);
    }
  }
  const Status status = decode_status(all_gather_bytes(world_, outcome).front());
  if (status) saved_step_ = progress.step;
  context_.black_box->enter(Phase::kIdle);
  return status;
}

// A leader that was cut off must not commit beside its successor, on how few nodes it may go on.
Status Checkpointer::check_epoch(FileSystem& files) const {
  if (context_.request.epoch == 0) return ok_status();
  return check_not_fenced(files, RunDir(context_.request.run_dir).control().string(), context_.request.epoch);
}

Result<Committed> Checkpointer::commit_shards(FileSystem& files,
                                              const SaveTarget& target,
                                              const Progress& progress,
                                              const std::vector<std::string>& reports) {
  CommitRequest request;
  request.state = state_after(progress);
  request.expected = expected_;
  for (const std::string& report : reports) {
    LLMTRAIN_ASSIGN(records, decode_shard_report(report));
    request.records.insert(request.records.end(), records.begin(), records.end());
  }
  request.extra_files = extra_files_;
  // Without other agents nobody can take over from one that writes nothing down.
  if (context_.request.epoch > 0)
    request.extra_files.push_back({RecentSteps::kFile, context_.events.recent_steps().text()});
  request.may_commit = [&] { return check_epoch(files); };
  request.on_arrow = [&](std::string_view arrow) { context_.faults.at(arrow, progress.step); };
  context_.faults.at("commit", progress.step);
  LLMTRAIN_TRY(check_epoch(files));
  return commit(files, target, std::move(request));
}

TrainState Checkpointer::state_after(const Progress& progress) const {
  return {.step = progress.step,
          .next_sample = progress.samples,
          .tokens = progress.tokens,
          .seed = context_.spec.run.seed,
          .optimizer_steps = optimizer_.count(),
          .skipped_steps = progress.skipped,
          .extra = extra_state(progress),
          .spec_yaml = context_.request.spec_yaml,
          .epoch = context_.request.incarnation,
          .resumed_from_step = resumed_from_,
          .previous = previous_,
          .layout = context_.plan.mesh,
          .cpu = cpu_capability(),
          .compute_threads = compute_threads(context_),
          .llmtrain_version = LLMTRAIN_VERSION,
          .saved_at = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())};
}

void Checkpointer::let_go_of_old_ones() {
  const auto files = make_posix_filesystem();
  const RetentionPolicy policy{.keep_last = context_.spec.checkpoint.keep_last,
                               .keep_every = context_.plan.keep_every};
  if (const auto status = apply_retention(*files, checkpoints_dir_, policy, &known_); !status)
    context_.events.emit(Note{.severity = Severity::kWarning,
                              .rank = world_.rank(),
                              .text = "old checkpoints stay: " + to_string(status.error())});
}

Progress Checkpointer::restore(const std::string& step_dir) {
  const auto start = std::chrono::steady_clock::now();
  context_.black_box->enter(Phase::kLoading);
  context_.faults.at("load", 0);
  const auto files = make_posix_filesystem();
  CheckpointReader reader = value_or_throw(CheckpointReader::open(*files, step_dir));
  value_or_throw(reader.expect(expected_));
  for (const NamedTensor& tensor : tensors_)
    for (const OwnedBox& part : tensor.owned)
      value_or_throw(reader.read(tensor.info.name, tensor.info.dtype, part.box, bytes_of(part.values)));
  const TrainState& state = reader.state();
  optimizer_.set_count(state.optimizer_steps);
  saved_step_ = resumed_from_ = state.step;
  context_.black_box->step.store(
      state.step);  // who fails in the next step is not to be taken for one in the first
  previous_ = reader.directory().substr(reader.directory().find_last_of('/') + 1);
  if (world_.rank() == 0) {
    context_.events.emit(
        CheckpointLoaded{.step = state.step, .path = step_dir, .ms = milliseconds_since(start)});
    warn_of_other_machine(state);
  }
  return {.step = state.step,
          .samples = state.next_sample,
          .tokens = state.tokens,
          .skipped = state.skipped_steps,
          .loss_scale = loss_scale_of(state),
          .evaluation_owed = state.extra.contains(kEvaluationOwed)};
}

// Bits are promised for the same threads and instruction set only.
void Checkpointer::warn_of_other_machine(const TrainState& state) {
  const int threads = compute_threads(context_);
  if (state.cpu == cpu_capability() && state.compute_threads == threads) return;
  context_.events.emit(Note{
      .severity = Severity::kWarning,
      .rank = world_.rank(),
      .text =
          fmt::format("the checkpoint was computed with {} and {} threads a rank, this run uses {} and {}: "
                      "it goes on correctly, but not bit for bit",
                      state.cpu,
                      state.compute_threads,
                      cpu_capability(),
                      threads)});
}

}  // namespace llmtrain
