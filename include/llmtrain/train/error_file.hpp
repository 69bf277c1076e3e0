#pragma once

#include <string>

// What a worker that ends by an exception leaves for its agent, in the form of torchelastic's error files:
//
//   {"message": {"message": "CommError: ...", "errorCode": 80, "extraInfo": {"py_callstack": "...",
//                                                                            "timestamp": "1700000000"}}}
//
// It is written beside and renamed, so that a reader sees all of it or nothing. Failing to write it is no
// failure: the exception itself is on stderr.
namespace llmtrain {

struct WorkerError {
  std::string type;  // "CommError"
  std::string text;
  int code = 0;       // with which the worker ends
  std::string trace;  // where it came from, if that is known
};

void write_error_file(const std::string& path, const WorkerError& error);

}  // namespace llmtrain
