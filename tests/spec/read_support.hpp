#pragma once

#include <string>

#include "llmtrain/spec/read.hpp"

namespace llmtrain::test {

// What reading `yaml` over the defaults gives, with every message as one text.
struct Read {
  JobSpec spec;
  Diagnostics diagnostics;

  explicit Read(const std::string& yaml) {
    const YamlNode tree = parse_yaml(yaml, "job.yaml", diagnostics);
    read_spec(tree, spec, diagnostics);
  }
  bool ok() const { return !diagnostics.has_errors(); }
  std::string messages() const {
    std::string out;
    for (const Diagnostic& diagnostic : diagnostics.all()) out += diagnostic.text() + "\n";
    return out;
  }
  std::size_t count() const { return diagnostics.all().size(); }
};

}  // namespace llmtrain::test
