#include "hints.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/spec/schema.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kLongestKey = 64;  // longer ones are no misspelling

char fold(char c) {
  if (c == '-') return '_';
  return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

// Edit distance in which two swapped neighbours are one edit; letter case and `-` for `_` cost nothing.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  const auto same = [&](std::size_t i, std::size_t j) { return fold(a[i - 1]) == fold(b[j - 1]); };
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j))
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

struct Candidate {
  std::size_t distance;
  std::string path;
};

// Nearest field below `section`; `deep` looks into sections within it too.
void search(const FieldSchema& section, const std::string& key, bool deep, std::optional<Candidate>& best) {
  for (const FieldSchema& field : section.fields) {
    const std::size_t d = distance(key, field.name);
    const std::size_t tolerated = std::max<std::size_t>(1, std::min(key.size(), field.name.size()) / 3);
    if (d <= tolerated && (!best || d < best->distance)) best = Candidate{d, field.path};
    if (deep) search(field, key, deep, best);
  }
}

// The schema of `path`; indexes of lists ("faults[2]") are skipped.
const FieldSchema* section_at(const FieldSchema& root, const std::string& path) {
  const FieldSchema* section = &root;
  for (std::size_t at = 0; section != nullptr && at < path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    std::string name = path.substr(at, end - at);
    if (const std::size_t bracket = name.find('['); bracket != std::string::npos) name.resize(bracket);
    section = section->find(name);
    at = end + 1;
  }
  return section;
}

}  // namespace

std::string unknown_key_hint(const std::string& path, const std::string& key) {
  const FieldSchema root = job_schema();
  const FieldSchema* section = section_at(root, path);
  if (section == nullptr) section = &root;
  if (key.size() <= kLongestKey) {
    std::optional<Candidate> here;
    std::optional<Candidate> elsewhere;
    search(*section, key, false, here);
    search(root, key, true, elsewhere);
    if (here && (!elsewhere || here->distance <= elsewhere->distance))
      return fmt::format("did you mean {}?", here->path);
    if (elsewhere && elsewhere->distance == 0) return fmt::format("it belongs at {}", elsewhere->path);
    if (here) return fmt::format("did you mean {}?", here->path);
    if (elsewhere) return fmt::format("did you mean {}?", elsewhere->path);
  }
  std::vector<std::string_view> names;
  for (const FieldSchema& field : section->fields) names.push_back(field.name);
  return fmt::format("known here: {}", fmt::join(names, ", "));
}

}  // namespace llmtrain
