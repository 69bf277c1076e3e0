#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "llmtrain/submit/submit_request.hpp"

#include "tests/support/catch.hpp"

// A job as the generators get it, and the texts they are compared with.
namespace llmtrain::test {

inline SubmitRequest small_request() {
  SubmitRequest request;
  request.spec.run.name = "small";
  request.spec.run.dir = "runs/small";
  request.spec.launch.nodes = 2;
  request.spec.launch.procs_per_node = 2;
  request.job_text = "version: 1\nrun: {name: small}\n";
  request.command = {"/opt/llmtrain", "launch", "job.yaml"};
  request.directory = "/home/a";
  return request;
}

inline SubmitRequest pod_request() {
  SubmitRequest request = small_request();
  request.command = {};
  request.image = "registry/llmtrain:1";
  request.claim = "runs";
  return request;
}

// With LLMTRAIN_REWRITE_GOLDEN=1 the file is written instead.
inline void check_golden(const std::string& name, const std::string& found) {
  const std::string path = LLMTRAIN_SOURCE_DIR "/tests/golden/submit/" + name;
  if (std::getenv("LLMTRAIN_REWRITE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << found;
  std::ifstream stream(path, std::ios::binary);
  const std::string expected{std::istreambuf_iterator<char>(stream), {}};
  INFO(path);
  CHECK(found == expected);
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace llmtrain::test
