#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/monitor/events.hpp"

// Scalars for TensorBoard: train/{loss, grad_norm, lr, tok_s, mfu} and eval/loss over the step.
//
// Every process that opens it writes a file of its own. When a run goes on from an earlier step the new file
// says so, and TensorBoard drops the points that will be written again. Numbers that are not known or not
// finite have no point. A full disk never stops training: points are lost and counted.
namespace llmtrain {

class TensorBoardSink final : public EventSink {
 public:
  // Makes `directory` (its parent must exist) and a new event file in it. `time` is in Unix seconds.
  static Result<std::unique_ptr<TensorBoardSink>> open(const std::string& directory, double time);

  void on(const Event& event) override;

  const std::string& path() const { return path_; }
  const std::optional<Error>& first_failure() const { return first_failure_; }

 private:
  TensorBoardSink(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status write(std::string_view bytes);

  UniqueFd fd_;
  std::string path_;
  std::int64_t size_ = 0;  // of whole records
  std::optional<Error> first_failure_;
};

}  // namespace llmtrain
