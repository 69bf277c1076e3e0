#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

// Asks workers for their native stacks just before they are killed, and finds them in what they write to
// stderr.
//
// The worker's handler writes the lines
//   llmtrain-stack begin <pid>
//   llmtrain-stack <frame> <module>+0x<offset> <symbol>
//   llmtrain-stack end
// A worker that does not answer in time is not waited for; whatever stands there by then is what is known.
namespace llmtrain {

inline constexpr std::string_view kStackPrefix = "llmtrain-stack ";

struct ParsedStack {
  std::vector<std::string> frames;  // innermost first, at most 128, printable
  bool complete = false;            // its end was written
};
// The newest stack of process `pid` in `text`, between whatever else stands there.
ParsedStack parse_stack(std::string_view text, pid_t pid);

class StackRequest {
 public:
  explicit StackRequest(int signal) : signal_(signal) {}  // the one that the workers' handler takes

  // Sends the signal. A stopped worker is continued for it: the signal is pending before it runs again, so
  // the handler comes first. False: there is no such process, or it may not be signalled.
  bool ask(int rank, pid_t pid, bool stopped);

  // What a worker has written to stderr since it was asked. Called again and again; it takes in what has
  // arrived and does not wait.
  using Text = std::function<std::string_view(int rank)>;
  // Waits until every worker that was asked has answered, at most until `limit` from now.
  std::map<int, std::vector<std::string>> collect(
      const Text& text, std::chrono::milliseconds limit = std::chrono::milliseconds(300));

 private:
  int signal_;
  std::map<int, pid_t> asked_;  // by rank
};

}  // namespace llmtrain
