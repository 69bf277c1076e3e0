#pragma once

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

// Collects violations in the order in which they are found.
class Diagnostics {
 public:
  void error(Origin origin, std::string path, std::string message) {
    all_.push_back({DiagnosticLevel::kError, std::move(origin), std::move(path), std::move(message)});
  }
  void warning(Origin origin, std::string path, std::string message) {
    all_.push_back({DiagnosticLevel::kWarning, std::move(origin), std::move(path), std::move(message)});
  }

  bool has_errors() const;
  // Whether an error names `path`, something inside it or a section around it: rules that need its value must
  // not run.
  bool is_bad(const std::string& path) const;
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

// Every error of the list, one per line, as one Error{kInvalidSpec}.
Error to_error(const std::vector<Diagnostic>& diagnostics);

}  // namespace llmtrain
