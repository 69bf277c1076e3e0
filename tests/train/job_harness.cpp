#include "tests/train/job_harness.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/half_floats.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/monitor/black_box.hpp"
#include "llmtrain/shm/region.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/worker.hpp"

namespace llmtrain::test {
namespace {
namespace fs = std::filesystem;

LoadedJob load(const JobOptions& options) {
  const std::string file = options.run_dir + "/job.yaml";
  fs::create_directories(options.run_dir);
  std::ofstream(file) << options.yaml;
  JobSource source{.files = {file}, .overrides = options.overrides, .procs_per_node = options.processes};
  source.overrides.push_back("run.dir=" + options.run_dir);
  return value_or_throw(load_job(source));
}

struct RankThread {
  UniqueFd agent_end;
  BlackBox* black_box = nullptr;
  std::string text;  // what the rank sent
  int code = -1;
  std::jthread reader;
  std::jthread worker;
};

void start(RankThread& thread, WorkerRequest request, bool stop) {
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) throw std::runtime_error("socketpair");
  thread.agent_end = UniqueFd(sockets[0]);
  request.control_fd = sockets[1];
  request.black_box_fd = ::memfd_create("black-box", 0);
  if (::ftruncate(request.black_box_fd, sizeof(BlackBox)) != 0) throw std::runtime_error("ftruncate");
  thread.black_box = static_cast<BlackBox*>(
      ::mmap(nullptr, sizeof(BlackBox), PROT_READ | PROT_WRITE, MAP_SHARED, request.black_box_fd, 0));
  if (stop) thread.black_box->stop_request.store(1);
  thread.reader = std::jthread([&thread] {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(thread.agent_end.get(), buffer, sizeof buffer)) > 0;)
      thread.text.append(buffer, static_cast<std::size_t>(n));
  });
  thread.worker =
      std::jthread([&thread, request = std::move(request)] { thread.code = run_worker(to_json(request)); });
}

void collect(JobResult& result, const RankThread& thread, bool first) {
  result.codes.push_back(thread.code);
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = thread.text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Event event = value_or_throw(event_from_json(thread.text.substr(begin, end - begin)));
    if (const auto* step = std::get_if<StepReport>(&event.body); step != nullptr && first)
      result.steps.push_back(*step);
    if (const auto* note = std::get_if<Note>(&event.body);
        note != nullptr && note->severity == Severity::kError)
      result.problems.push_back(note->text);
    result.events.push_back(std::move(event));
  }
}

std::vector<double> to_doubles(const std::vector<std::byte>& bytes, DType dtype, std::size_t count) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = bytes.data() + i * bytes_of(dtype);
    if (dtype == DType::kFp64) {
      std::memcpy(&out[i], at, 8);
    } else if (dtype == DType::kFp32) {
      float value = 0;
      std::memcpy(&value, at, 4);
      out[i] = value;
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, at, 2);
      out[i] = dtype == DType::kFp16 ? float_of_fp16(half) : float_of_bf16(half);
    }
  }
  return out;
}

}  // namespace

JobResult run_job(const JobOptions& options) {
  const LoadedJob job = load(options);
  const UniqueFd region = value_or_throw(create_shm_region(options.processes));
  std::vector<RankThread> ranks(static_cast<std::size_t>(options.processes));
  for (int r = 0; r < options.processes; ++r) {
    WorkerRequest request{.rank = r,
                          .local_rank = r,
                          .world_size = options.processes,
                          .node = 0,
                          .incarnation = options.incarnation,
                          .spec_yaml = job.resolved_yaml,
                          .run_dir = options.run_dir,
                          .resume_path = options.resume_path,
                          .engine_path = {}};
    request.shm_fd = ::dup(region.get());
    start(ranks[static_cast<std::size_t>(r)], std::move(request), options.stop_after_one_step);
  }
  for (RankThread& rank : ranks) rank.worker.join();
  for (RankThread& rank : ranks) rank.reader.join();
  JobResult result;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    collect(result, ranks[r], r == 0);
    ::munmap(ranks[r].black_box, sizeof(BlackBox));
  }
  return result;
}

std::map<std::string, std::vector<double>> read_tensors(const std::string& step_dir) {
  const auto files = make_posix_filesystem();
  CheckpointReader reader = value_or_throw(CheckpointReader::open(*files, step_dir));
  std::map<std::string, std::vector<double>> out;
  for (const TensorInfo& info : reader.tensors()) {
    const auto count = static_cast<std::size_t>(volume(info.shape));
    std::vector<std::byte> bytes(count * bytes_of(info.dtype));
    value_or_throw(reader.read(info.name, info.dtype, bytes));
    out[info.name] = to_doubles(bytes, info.dtype, count);
  }
  return out;
}

double largest_difference(const std::map<std::string, std::vector<double>>& a,
                          const std::map<std::string, std::vector<double>>& b,
                          double floor) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size())
      return std::numeric_limits<double>::infinity();
    double scale = floor;
    double difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      scale = std::max(scale, std::abs(values[i]));
      difference = std::max(difference, std::abs(values[i] - other->second[i]));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

TempDir::TempDir() {
  std::string pattern = (fs::temp_directory_path() / "llmtrain-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace llmtrain::test
