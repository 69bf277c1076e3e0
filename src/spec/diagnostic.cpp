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

bool Diagnostics::has_errors() const {
  return std::any_of(all_.begin(), all_.end(), [](const Diagnostic& diagnostic) {
    return diagnostic.level == DiagnosticLevel::kError;
  });
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
