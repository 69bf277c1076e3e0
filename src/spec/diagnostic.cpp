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

bool Diagnostics::is_bad(const std::string& path) const {
  return std::any_of(all_.begin(), all_.end(), [&path](const Diagnostic& diagnostic) {
    if (diagnostic.level != DiagnosticLevel::kError || !diagnostic.path.starts_with(path)) return false;
    const std::size_t end = path.size();
    return diagnostic.path.size() == end || diagnostic.path[end] == '.' || diagnostic.path[end] == '[';
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
