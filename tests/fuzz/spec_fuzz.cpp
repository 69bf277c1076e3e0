#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/spec/write.hpp"

// Any bytes as a job file: no crash, no hang, and what is accepted survives being written and read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The bytes behind a "\n=" line serve as a --set argument.
  const std::size_t cut = text.find("\n=");
  llmtrain::JobSource source;
  source.missing_data = llmtrain::MissingData::kIgnore;
  source.env = {{"HOME", "/home/ada"}, {"N", "7"}};
  source.home = "/home/ada";
  if (cut != std::string::npos) source.overrides = {text.substr(cut + 2)};

  const llmtrain::JobReport report = llmtrain::check_job_text(text.substr(0, cut), "fuzz", source);
  if (!report.job) {
    if (report.diagnostics.empty()) std::abort();  // refused without a word
    return 0;
  }
  const auto again = llmtrain::parse_resolved(report.job->resolved_yaml, "resolved");
  if (!again || llmtrain::to_yaml(llmtrain::to_tree(*again)) != report.job->resolved_yaml) std::abort();
  llmtrain::JobSource plain = source;
  plain.overrides.clear();
  const llmtrain::JobReport same = llmtrain::check_job_text(report.job->source_yaml, "source", plain);
  if (!same.job || same.job->resolved_yaml != report.job->resolved_yaml) std::abort();
  return 0;
}
