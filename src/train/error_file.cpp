#include "llmtrain/train/error_file.hpp"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/filesystem.hpp"

namespace llmtrain {

void write_error_file(const std::string& path, const WorkerError& error) {
  if (path.empty()) return;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const nlohmann::json json = {
      {"message",
       {{"message", fmt::format("{}: {}", error.type, error.text)},
        {"errorCode", error.code},
        {"extraInfo", {{"py_callstack", error.trace}, {"timestamp", std::to_string(now)}}}}}};
  const auto files = make_posix_filesystem();
  const Status written = write_file_durably(
      *files, path, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!written) fmt::print(stderr, "no error file: {}\n", to_string(written.error()));
}

}  // namespace llmtrain
