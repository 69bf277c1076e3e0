#include "llmtrain/monitor/tensorboard_sink.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tensorboard_records.hpp"

namespace llmtrain {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

Error storage_error(const char* what, const std::string& path) {
  return {ErrorCode::kStorage,
          fmt::format("cannot {} `{}`: {}", what, path, std::strerror(errno)),
          "free some space, make the run directory writable, or set monitoring.tensorboard: false"};
}

using Scalars = std::vector<std::pair<std::string_view, float>>;

void add(Scalars& scalars, std::string_view tag, std::optional<double> value) {
  if (value && std::isfinite(static_cast<float>(*value)))
    scalars.emplace_back(tag, static_cast<float>(*value));
}

Scalars scalars_of(const StepReport& report) {
  Scalars scalars;
  add(scalars, "train/loss", report.loss);
  add(scalars, "train/grad_norm", report.grad_norm);
  add(scalars, "train/lr", report.lr);
  add(scalars, "train/tok_s", report.tok_s);
  add(scalars, "train/mfu", report.mfu);
  return scalars;
}

// The records of an event; empty when it has nothing to show.
std::string records_of(const Event& event) {
  if (const auto* report = std::get_if<StepReport>(&event.body)) {
    const Scalars scalars = scalars_of(*report);
    return scalars.empty() ? "" : tfrecord(scalars_event(event.time, report->step, scalars));
  }
  if (const auto* eval = std::get_if<EvalReport>(&event.body)) {
    Scalars scalars;
    add(scalars, "eval/loss", eval->loss);
    return scalars.empty() ? "" : tfrecord(scalars_event(event.time, eval->step, scalars));
  }
  if (const auto* started = std::get_if<RunStarted>(&event.body))
    return tfrecord(restart_event(event.time, started->first_step + 1));
  return "";
}

}  // namespace

Result<std::unique_ptr<TensorBoardSink>> TensorBoardSink::open(const std::string& directory, double time) {
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return storage_error("make", directory);
  // Readers go through the files by name, so an older file must have the smaller name.
  for (int n = 0; n < 1000; ++n) {
    const std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}",
                                         directory,
                                         static_cast<std::int64_t>(time),
                                         host_name(),
                                         ::getpid(),
                                         n);
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!fd.valid() && errno == EEXIST) continue;
    if (!fd.valid()) return storage_error("make", path);
    std::unique_ptr<TensorBoardSink> sink(new TensorBoardSink(std::move(fd), path));
    LLMTRAIN_TRY(sink->write(tfrecord(version_event(time))));
    return sink;
  }
  errno = EEXIST;
  return storage_error("make an event file in", directory);
}

void TensorBoardSink::on(const Event& event) {
  const std::string records = records_of(event);
  if (records.empty()) return;
  const Status written = write(records);
  if (!written && !first_failure_) first_failure_ = written.error();
}

// A reader cannot get past half a record, so one is cut off before anything follows it.
Status TensorBoardSink::write(std::string_view bytes) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return storage_error("look at", path_);
  if (info.st_size > size_ && ::ftruncate(fd_.get(), size_) != 0) return storage_error("cut", path_);
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return storage_error("write", path_);
  if (static_cast<std::size_t>(written) != bytes.size()) {
    errno = ENOSPC;
    return storage_error("write", path_);
  }
  size_ += written;
  return ok_status();
}

}  // namespace llmtrain
