#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/core/result.hpp"

// What happened in a run, as plain structs: workers and the agent emit them, sinks render them.
//
// Emitting an event never changes what a run computes. Numbers that are not finite or not known are
// absent optionals and become null in JSON; every key of an event is always present.
namespace llmtrain {

// One optimizer step of the whole job; one row of metrics.jsonl.
struct StepReport {
  std::int64_t step = 0;            // k = k-th update, from 1
  std::optional<double> loss;       // mean over the valid tokens of the global batch
  std::optional<double> grad_norm;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;      // since step 0, global
  std::optional<double> tok_s;  // global
  std::optional<double> step_ms;
  std::optional<double> mfu;           // of the model FLOPs; null until the peak is known
  std::optional<double> mem_gb;        // peak resident (CPU) or allocated (CUDA) of rank 0
  std::int64_t skipped = 0;            // steps skipped so far because a number was not finite
  double data_wait_ms = 0;             // of rank 0; not in metrics.jsonl's fixed keys but appended to them
  std::optional<double> loss_scale{};  // of an fp16 step; appended too
};

struct RunStarted {
  std::string run;  // run.name
  int world_size = 0;
  std::int64_t first_step = 0;  // last finished step: 0 = fresh
  std::int64_t total_steps = 0;
  std::string layout;  // "pp1 dp2 sp1 tp1"
  std::int64_t parameters = 0;
  int compute_threads = 0;
  std::string cpu;  // instruction set that libtorch chose
};

struct EvalReport {
  std::int64_t step = 0;
  double loss = 0;
  std::int64_t tokens = 0;  // valid label tokens that were scored
};

struct CheckpointSaved {
  std::int64_t step = 0;
  std::string path;
  std::int64_t bytes = 0;
  double ms = 0;
};

struct CheckpointLoaded {
  std::int64_t step = 0;
  std::string path;
  double ms = 0;
};

// A checkpoint that resume passed over because it failed its checks.
struct CheckpointRejected {
  std::string path;
  std::string reason;
};

struct WorkerExited {
  int rank = 0;
  int pid = 0;
  int code = 0;           // as a shell would report it: 128 + n for a signal
  std::string cause;      // "signal 9 (SIGKILL)", "exit 1: data"
  std::int64_t step = 0;  // last step it had finished
  std::string phase;      // what it was doing, from its black box
};

struct Restarted {
  int restarts = 0;  // so far, this one included
  int max_restarts = 0;
  std::string reason;
};

// A rank, or a whole node, for which all others wait at every step: it does the same work and takes longer.
struct StragglerFound {
  std::string ranks;  // "2", or "2, 3" of one node
  int node = 0;
  std::string host;
  std::string cause;      // "compute", "data" or "communication"
  std::int64_t step = 0;  // at which it was found
  double ms = 0;          // that the cause takes a step
  double peers_ms = 0;    // and takes the ranks which do the same work: their median
  double step_ms = 0;     // a whole step
};

struct StragglerOver {
  std::string ranks;
  int node = 0;
  std::string host;
  std::string cause;
  std::int64_t step = 0;
};

struct StopRequested {
  std::string signal;  // "SIGTERM"
};

struct RunFinished {
  int code = 0;
  std::int64_t step = 0;
  std::string reason;  // "done", "preempted", ...
};

// At the end of a run, one for each rank, axis and operation.
struct CommTotals {
  int rank = 0;
  std::string axis;
  std::string op;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // payload given to the operation by this rank
  double exposed_ms = 0;   // time the rank stood waiting
};

// At the end of a run, one for each rank; bytes.
struct MemoryReport {
  int rank = 0;
  std::int64_t params = 0;
  std::int64_t grads = 0;
  std::int64_t optimizer = 0;
  std::int64_t host_optimizer = 0;  // where memory.offload_optimizer put it instead
  std::int64_t activations_peak = 0;
};

// At the end of a run, one for each rank: where its time went, in milliseconds.
struct PhaseTotals {
  int rank = 0;
  double data_wait_ms = 0;
  double stage_wait_ms = 0;  // for what another pipeline stage sends
  double forward_ms = 0;
  double backward_ms = 0;
  double reduce_ms = 0;  // gradients of which nothing was left to hide behind
  double optimizer_ms = 0;
  double evaluate_ms = 0;
  double save_ms = 0;
};

enum class Severity { kInfo, kWarning, kError };

// A sentence for the person who reads the log.
struct Note {
  Severity severity = Severity::kInfo;
  int rank = -1;  // -1: the agent
  std::string text;
  bool output = false;  // a line of a worker's output: it lies in the logs, and is recorded nowhere else
};

using EventBody = std::variant<StepReport,
                               RunStarted,
                               EvalReport,
                               CheckpointSaved,
                               CheckpointLoaded,
                               CheckpointRejected,
                               WorkerExited,
                               Restarted,
                               StragglerFound,
                               StragglerOver,
                               StopRequested,
                               RunFinished,
                               CommTotals,
                               MemoryReport,
                               PhaseTotals,
                               Note>;

struct Event {
  double time = 0;      // Unix seconds
  int incarnation = 0;  // 0 = the first start of the workers in this run directory
  EventBody body;
};

// "step", "run_started", "eval", "checkpoint_saved", ... : the value of the key `event`.
const char* event_name(const EventBody& body);

// One JSON object without a newline: {"time":…, "event":…, "incarnation":…, fields…}.
std::string to_json_line(const Event& event);
// One row of metrics.jsonl without a newline, in its fixed order of keys: step, loss, grad_norm, lr, tokens,
// tok_s, step_ms, mfu, mem_gb, skipped, incarnation, time, data_wait_ms.
std::string to_metrics_line(const StepReport& report, double time, int incarnation);
// The inverse of to_json_line, for messages that workers send to their agent. An unknown event, an unknown,
// missing or mistyped key and a line of more than 1 MiB are errors (kCorrupt).
Result<Event> event_from_json(const std::string& line);

// Receives events in order; implementations are files, the console, TensorBoard and the control channel.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on(const Event& event) = 0;
};

}  // namespace llmtrain
