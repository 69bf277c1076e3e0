#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llmtrain/core/result.hpp"

// What is wrong with a job spec, and where: one Diagnostic for each violation, never only the first.
namespace llmtrain {

// Where a value was written: a place in a file, or a `--set` argument (then `line` is 0).
struct Origin {
  std::shared_ptr<const std::string> source;  // shared by every value of one file; absent = a default
  int line = 0;                               // from 1
  int column = 0;                             // from 1

  // "job.yaml:3:7", "job.yaml: --set a.b=c", "default".
  std::string text() const;
};

enum class DiagnosticLevel { kWarning, kError };

struct Diagnostic {
  DiagnosticLevel level = DiagnosticLevel::kError;
  Origin origin;
  std::string path;     // "parallelism.tp"; empty when the whole file is meant
  std::string message;  // with the value found and what is allowed

  // "job.yaml:3:7: parallelism.tp = 3: only 1 is allowed"; a warning says so after the place.
  std::string text() const;
};

// Collects violations in the order in which they are found, up to a number that a person would read.
class Diagnostics {
 public:
  static constexpr std::size_t kMost = 200;

  void error(Origin origin, std::string path, std::string message) {
    add({DiagnosticLevel::kError, std::move(origin), std::move(path), std::move(message)});
  }
  void warning(Origin origin, std::string path, std::string message) {
    add({DiagnosticLevel::kWarning, std::move(origin), std::move(path), std::move(message)});
  }

  bool has_errors() const { return errors_ > 0; }
  std::size_t error_count() const { return errors_; }  // with those that are not listed
  bool is_full() const { return all_.size() > kMost; }
  // Whether an error names `path`, something inside it or a section around it: rules that need its value must
  // not run.
  bool is_bad(const std::string& path) const;
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  void add(Diagnostic diagnostic);

  std::vector<Diagnostic> all_;
  std::size_t errors_ = 0;
};

// Every error of the list, one per line, as one Error{kInvalidSpec}.
Error to_error(const std::vector<Diagnostic>& diagnostics);

}  // namespace llmtrain
