// An engine without tensors: it speaks everything that a worker speaks (request, black box, control
// socket, shared memory, checkpoints, exit codes) and computes nothing, so that the launcher can be tried
// in full, and hurt, without libtorch.
//
// FAKE_ENGINE in its environment, a list of words, says what shall happen:
//   step_ms=N                            how long a step takes (default 1)
//   RANK:STEP:INCARNATION:ACTION         before that step (* = any incarnation): kill, segv, throw, hang,
//   stop,
//                                        child (leave a grandchild), daemon (one outside of the group),
//                                        lines, flood (more than is kept), words (a warning, an ordinary
//                                        line and one on stdout), garbage, exitN, leave (as one who lost its
//                                        peers)
//   ignore_stop                          never agree to stop
// On several nodes ranks meet through the key-value store of their agents.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/control/store_wire.hpp"
#include "llmtrain/job/engine_abi.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/monitor/black_box.hpp"
#include "llmtrain/monitor/events.hpp"
#include "llmtrain/monitor/recent_steps.hpp"

using namespace llmtrain;

namespace {

struct Leave {
  int code;
};

// What the ranks share: each says how far it is and whether it was asked to stop.
struct Shared {
  std::atomic<std::int64_t> arrived[64];
  std::atomic<std::uint32_t> stop[2][64];
};

template <class T>
T& map_shared(int fd) {
  void* const page = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) throw Leave{70};
  return *static_cast<T*>(page);
}

class FakeWorker {
 public:
  explicit FakeWorker(const WorkerRequest& request)
      : request_(request),
        spec_(parse_resolved(request.spec_yaml, "request").value()),
        plan_(plan_run(spec_)),
        files_(make_posix_filesystem()),
        box_(map_shared<BlackBox>(request.black_box_fd)),
        shared_(map_shared<Shared>(request.shm_fd)) {
    const char* const script = std::getenv("FAKE_ENGINE");
    std::istringstream words(script == nullptr ? "" : script);
    for (std::string word; words >> word;) words_.push_back(word);
  }

  int run() {
    load();
    emit(RunStarted{spec_.run.name, request_.world_size, step_, plan_.total_steps, "fake", 4, 1, "none"});
    while (step_ < plan_.total_steps) {
      act();
      box_.enter(Phase::kForward);
      std::this_thread::sleep_for(std::chrono::milliseconds(number("step_ms=", 1)));
      const bool stop = meet(++step_);
      box_.step.store(step_);
      emit_step();
      const bool last = step_ == plan_.total_steps;
      if (last || stop || (plan_.checkpoint_interval > 0 && step_ % plan_.checkpoint_interval == 0)) save();
      if (stop && !last) return to_int(WorkerExit::kStoppedSaved);
      box_.enter(Phase::kIdle);
    }
    return 0;
  }

 private:
  std::int64_t number(const std::string& prefix, std::int64_t fallback) const {
    for (const std::string& word : words_)
      if (word.starts_with(prefix)) return std::atoll(word.c_str() + prefix.size());
    return fallback;
  }
  bool has(const std::string& wanted) const {
    for (const std::string& word : words_)
      if (word == wanted) return true;
    return false;
  }

  void load() {
    box_.enter(Phase::kLoading);
    if (request_.resume_path.empty()) return;
    const auto reader = CheckpointReader::open(*files_, request_.resume_path);
    if (!reader) throw Leave{to_int(ExitCode::kNoCheckpoint)};
    step_ = reader->state().step;
    box_.step.store(step_);
    emit(CheckpointLoaded{step_, request_.resume_path, 0.1});
  }

  void act() {
    for (const std::string& word : words_)
      for (const std::string& incarnation : {std::to_string(request_.incarnation), std::string("*")}) {
        const std::string prefix = fmt::format("{}:{}:{}:", request_.rank, step_ + 1, incarnation);
        if (word.starts_with(prefix)) act(word.substr(prefix.size()));
      }
  }

  void act(const std::string& action) {
    if (action == "kill") raise(SIGKILL);
    if (action == "segv") raise(SIGSEGV);
    if (action == "stop") raise(SIGSTOP);
    if (action == "throw") throw std::runtime_error("thrown on purpose");
    if (action == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    if (action == "leave") throw Leave{to_int(WorkerExit::kLostPeer)};
    if (action == "child" || action == "daemon") {
      const std::string sleeper = action == "child" ? "sleep 1000" : "setsid sleep 1000";
      [[maybe_unused]] const int code =
          std::system((sleeper + " & echo $! >> '" + request_.run_dir + "/child'").c_str());
    }
    if (action == "lines")
      for (int i = 0; i < 200; ++i)
        fmt::print(stderr,
                   "rank {} line {:03} {}\n",
                   request_.rank,
                   i,
                   std::string(280, static_cast<char>('a' + request_.rank)));
    if (action == "flood") {
      const std::string line = "error: again " + std::string(86, 'x') + "\n";
      for (int i = 0; i < 200'000; ++i) std::fwrite(line.data(), 1, line.size(), stderr);
    }
    if (action == "words") {
      fmt::print(stderr, "warning: something is odd\nan ordinary line\n");
      fmt::print("a line on stdout\n");
      std::fflush(stdout);
    }
    if (action == "garbage") send_line("{\"not\": an event");
    if (action.starts_with("exit")) {
      fmt::print(stderr, "leaving on purpose\n");
      throw Leave{std::atoi(action.c_str() + 4)};
    }
  }

  // Waits for all ranks at the end of step `step`; true when one of them was asked to stop.
  bool meet(std::int64_t step) {
    box_.enter(Phase::kReduce);
    CollectiveRecord& record = box_.ring[box_.num_collectives.load() % BlackBox::kRingSize];
    std::strcpy(record.group.data(), "dp");
    std::strcpy(record.op.data(), "all_reduce");
    record.sequence = static_cast<std::uint64_t>(step);
    record.finished_ns = 0;
    std::strcpy(box_.standing.group.data(), "dp");
    std::strcpy(box_.standing.op.data(), "all_reduce");
    box_.standing.sequence = static_cast<std::uint64_t>(step);
    box_.standing_number = ++box_.num_collectives;
    auto& stop = shared_.stop[step % 2];
    stop[request_.rank] = has("ignore_stop") ? 0 : box_.stop_request.load();
    if (request_.store_fd >= 0) {
      const bool any = meet_in_store(step, stop[request_.rank] != 0);
      record.finished_ns = 1;
      return any;
    }
    shared_.arrived[request_.rank].store(step);
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration<double>(spec_.resilience.collective_timeout_s);
    bool any = false;
    for (int rank = 0; rank < request_.world_size; ++rank) {
      while (shared_.arrived[rank].load() < step) {
        if (std::chrono::steady_clock::now() > deadline) {
          fmt::print(stderr, "all_reduce {}: rank {} did not arrive\n", step, rank);
          throw Leave{to_int(WorkerExit::kLostPeer)};
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      any = any || stop[rank].load() != 0;
    }
    record.finished_ns = 1;
    box_.standing_number = 0;
    return any;
  }

  bool meet_in_store(std::int64_t step, bool stop) {
    ask({StoreRequest::Op::kSet, 0, fmt::format("{}/{}", step, request_.rank), stop ? "stop" : "go", 0});
    bool any = false;
    for (int rank = 0; rank < request_.world_size; ++rank)
      any = ask(get(fmt::format("{}/{}", step, rank))) == "stop" || any;
    return any;
  }
  StoreRequest get(const std::string& key) const {
    const double limit_ms = spec_.resilience.collective_timeout_s * 1e3;
    return {StoreRequest::Op::kGet, 0, key, "", static_cast<std::uint32_t>(limit_ms)};
  }
  std::string ask(StoreRequest request) {
    request.id = ++asked_;
    const std::string packet = encode(request);
    if (send(request_.store_fd, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) throw Leave{70};
    std::string answer(StoreLimits::kPacket, '\0');
    const ssize_t n = recv(request_.store_fd, answer.data(), answer.size(), 0);
    if (n <= 0) throw Leave{70};
    const auto reply = decode_store_reply(std::string_view(answer).substr(0, static_cast<std::size_t>(n)));
    if (!reply || reply->id != asked_) throw Leave{70};
    if (!reply->value) throw Leave{to_int(WorkerExit::kLostPeer)};
    return *reply->value;
  }

  void save() {
    box_.enter(Phase::kSaving);
    if (request_.rank == 0) {
      const float value = static_cast<float>(step_);
      const ShardFile shard{"weights",
                            {whole_tensor({"w", DType::kFp32, {1}}, std::as_bytes(std::span(&value, 1)))}};
      const SaveTarget target{
          RunDir(request_.run_dir).checkpoints().string(), step_, request_.incarnation, 0, 1};
      auto records = write_shards(*files_, target, std::span(&shard, 1));
      if (!records) throw Leave{to_int(ExitCode::kStorage)};
      CommitRequest commit_request;
      commit_request.state.seed = spec_.run.seed;
      commit_request.state.spec_yaml = request_.spec_yaml;
      commit_request.records = std::move(records).value();
      if (request_.epoch > 0) commit_request.extra_files = {{RecentSteps::kFile, recent_steps_.text()}};
      const auto done = commit(*files_, target, std::move(commit_request));
      if (!done) {
        fmt::print(stderr, "{}\n", done.error().message);
        throw Leave{to_int(ExitCode::kStorage)};
      }
      emit(CheckpointSaved{step_, done->path, static_cast<std::int64_t>(done->bytes), 1});
    }
    wait_for_save();
  }

  // Nobody goes on, or leaves, before the save is committed.
  void wait_for_save() {
    if (request_.store_fd >= 0) {
      const std::string key = fmt::format("saved/{}", step_);
      if (request_.rank == 0) ask({StoreRequest::Op::kSet, 0, key, "", 0});
      ask(get(key));
      return;
    }
    static constexpr int kSaveLane = 63;
    if (request_.rank == 0) shared_.arrived[kSaveLane].store(step_);
    while (shared_.arrived[kSaveLane].load() < step_)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  void emit_step() {
    if (request_.rank != 0) return;
    StepReport report;
    report.step = step_;
    report.loss = 1.0 / static_cast<double>(step_);
    emit(report);
  }

  void emit(EventBody body) {
    if (request_.rank != 0) return;
    const Event event{1.0, request_.incarnation, std::move(body)};
    recent_steps_.saw(event);
    send_line(to_json_line(event));
  }
  void send_line(std::string line) {
    line += '\n';
    [[maybe_unused]] const ssize_t n = send(request_.control_fd, line.data(), line.size(), MSG_NOSIGNAL);
  }

  WorkerRequest request_;
  JobSpec spec_;
  RunPlan plan_;
  std::unique_ptr<FileSystem> files_;
  BlackBox& box_;
  Shared& shared_;
  std::vector<std::string> words_;
  RecentSteps recent_steps_;
  std::int64_t step_ = 0;
  std::uint32_t asked_ = 0;  // of the store
};

}  // namespace

int llmtrain_engine_abi() {
  return kEngineAbi;
}

int llmtrain_engine_run(const char* command, const char* request_json, unsigned long size) {
  try {
    if (std::strcmp(command, "worker") != 0) return to_int(ExitCode::kUsage);
    return FakeWorker(worker_request_from_json(std::string(request_json, size)).value()).run();
  } catch (const Leave& leave) {
    return leave.code;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return to_int(ExitCode::kInternal);
  }
}
