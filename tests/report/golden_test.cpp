#include <cstdlib>
#include <fstream>
#include <sstream>

#include "llmtrain/report/report_text.hpp"
#include "llmtrain/report/run_status.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

// Run directories made by hand in tests/report/cases, each with the texts that it must give. With
// LLMTRAIN_UPDATE_GOLDEN=1 they are written anew: look at what changed before it is committed.
namespace {

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void check_golden(const std::string& path, const std::string& text) {
  if (std::getenv("LLMTRAIN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  INFO(path);
  CHECK(text == slurp(path));
}

}  // namespace

TEST_CASE("golden: reports and statuses of run directories made by hand", "[report]") {
  const auto files = make_posix_filesystem();
  for (const std::string name : {"fresh", "running", "crashed_twice", "finished", "damaged"}) {
    INFO(name);
    const std::string path = LLMTRAIN_SOURCE_DIR "/tests/report/cases/" + name;
    auto history = read_history(*files, RunDir(path), {});
    REQUIRE(history.ok());
    history->run_dir = "RUN";
    check_golden(path + "/expected_report.txt", report_text(*history));
    check_golden(path + "/expected_report.json", report_json(*history));
    auto status = read_status(*files, RunDir(path), name == "running");
    REQUIRE(status.ok());
    status->run_dir = "RUN";
    if (!status->logs.empty()) status->logs = "RUN" + status->logs.substr(path.size());
    check_golden(path + "/expected_status.txt", status_text(*status, std::nullopt));
  }
}
