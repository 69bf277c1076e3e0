#include "llmtrain/spec/diagnostic.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace llmtrain {

std::string Origin::text() const {
  if (!source) return "default";
  return line == 0 ? *source : fmt::format("{}:{}:{}", *source, line, column);
}

std::string Diagnostic::text() const {
  std::string out = origin.text() + ": ";
  if (level == DiagnosticLevel::kWarning) out += "warning: ";
  if (!path.empty()) {
    out += path;
    // A message that opens with the value reads "path = value: ...".
    out += message.starts_with("= ") ? " " : ": ";
  }
  return out + message;
}

void Diagnostics::add(Diagnostic diagnostic) {
  if (diagnostic.level == DiagnosticLevel::kError) ++errors_;
  if (all_.size() < kMost) {
    all_.push_back(std::move(diagnostic));
    return;
  }
  // The last one says so, and is an error as soon as one of those left out is.
  const DiagnosticLevel level = std::max(diagnostic.level, all_.back().level);
  if (all_.size() == kMost)
    all_.push_back({level, diagnostic.origin, "", "more than this is wrong; the rest is not listed"});
  all_.back().level = level;
}

namespace {

// Whether `inner` is `outer` or lies within it: "a.b[0]" within "a.b" and "a".
bool lies_in(const std::string& inner, const std::string& outer) {
  if (!inner.starts_with(outer)) return false;
  const std::size_t end = outer.size();
  return inner.size() == end || inner[end] == '.' || inner[end] == '[';
}

}  // namespace

bool Diagnostics::is_bad(const std::string& path) const {
  return std::any_of(all_.begin(), all_.end(), [&path](const Diagnostic& diagnostic) {
    if (diagnostic.level != DiagnosticLevel::kError || diagnostic.path.empty()) return false;
    return lies_in(diagnostic.path, path) || lies_in(path, diagnostic.path);
  });
}

Error to_error(const std::vector<Diagnostic>& diagnostics) {
  Error error{ErrorCode::kInvalidSpec, "", ""};
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.level != DiagnosticLevel::kError) continue;
    if (!error.message.empty()) error.message += '\n';
    error.message += diagnostic.text();
  }
  return error;
}

}  // namespace llmtrain
