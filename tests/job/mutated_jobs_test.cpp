#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "llmtrain/job/load_job.hpp"

#include "tests/support/catch.hpp"

// Job files as people break them: a thousand seeded mutations of those in the tree. Each is accepted, or
// refused with places: nothing crashes and nothing is refused without a word. The fuzz target looks at any
// bytes.

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

constexpr int kMutations = 1000;
constexpr std::string_view kSnippets[] = {":",        "\t", "- ",    "{",    "}",    "[",
                                          "]",        "\"", "'",     "#",    "&a",   "*a",
                                          "!!x",      "-1", "1e999", "NaN",  "...",  "---",
                                          "\n",       "  ", "auto",  "null", "true", "9999999999999999999",
                                          "${env:X}", "<<", "\xff",  "\r",   "0x10", "tp: 3"};

std::vector<std::string> jobs_of_the_tree() {
  std::vector<std::string> texts;
  for (const char* folder : {"configs", "examples"})
    for (const auto& entry : fs::directory_iterator(fs::path(LLMTRAIN_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      texts.push_back(text.str());
    }
  std::sort(texts.begin(), texts.end());
  return texts;
}

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t end) {
  return end == 0 ? 0 : random() % end;
}

void mutate(std::string& text, Random& random) {
  const std::size_t at = below(random, text.size());
  const std::size_t length = 1 + below(random, 12);
  switch (below(random, 6)) {
    case 0: text.erase(at, length); break;
    case 1: text.insert(at, kSnippets[below(random, std::size(kSnippets))]); break;
    case 2: text.insert(below(random, text.size()), text.substr(at, 4 * length)); break;
    case 3: text.replace(at, length, kSnippets[below(random, std::size(kSnippets))]); break;
    case 4:
      if (!text.empty()) text[at] = static_cast<char>(random());
      break;
    default: text.resize(at); break;
  }
}

}  // namespace

TEST_CASE("mutated jobs: accepted, or refused with the place of every error", "[job]") {
  const auto texts = jobs_of_the_tree();
  REQUIRE(texts.size() >= 8);
  JobSource source;
  source.missing_data = MissingData::kIgnore;
  int refused = 0;
  for (unsigned seed = 0; seed < kMutations; ++seed) {
    Random random(seed);
    std::string text = texts[below(random, texts.size())];
    for (std::size_t i = 0, count = 1 + below(random, 3); i < count; ++i) mutate(text, random);
    INFO("seed " << seed << "\n" << text);
    const JobReport report = check_job_text(text, "mutated.yaml", source);
    if (report.job) continue;
    ++refused;
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    bool error = false;
    for (const Diagnostic& found : report.diagnostics) {
      INFO(found.text());
      CHECK_FALSE(found.message.empty());
      // What is missing altogether has no place but its name.
      const bool placed =
          found.origin.line >= 1 && found.origin.line <= lines + 1 && found.origin.column >= 1;
      CHECK((placed || found.message.starts_with("missing")));
      error = error || found.level == DiagnosticLevel::kError;
    }
    CHECK(error);
  }
  CHECK(refused > kMutations / 4);
}
