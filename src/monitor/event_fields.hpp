#pragma once

#include <string_view>
#include <tuple>

#include "llmtrain/monitor/events.hpp"

// The one list of every event's name and fields; writing and reading both walk it, so that the two
// directions cannot disagree. The order here is the order of the keys in a JSON line.
namespace llmtrain {

template <class Event, class Value>
struct EventField {
  std::string_view key;
  Value Event::*member;
};
template <class Event, class Value>
EventField(std::string_view, Value Event::*) -> EventField<Event, Value>;

template <class Event>
struct EventTraits;

// LLMTRAIN_EVENT(type, name, fields...): a specialisation with `name` and the tuple `fields`.
#define LLMTRAIN_EVENT(type, text, ...)                     \
  template <>                                               \
  struct EventTraits<type> {                                \
    using T = type;                                         \
    static constexpr const char* name = text;               \
    static constexpr auto fields = std::tuple{__VA_ARGS__}; \
  }
#define LLMTRAIN_FIELD(member) \
  EventField {                 \
#member, &T::member        \
  }

LLMTRAIN_EVENT(StepReport,
               "step",
               LLMTRAIN_FIELD(step),
               LLMTRAIN_FIELD(loss),
               LLMTRAIN_FIELD(grad_norm),
               LLMTRAIN_FIELD(lr),
               LLMTRAIN_FIELD(tokens),
               LLMTRAIN_FIELD(tok_s),
               LLMTRAIN_FIELD(step_ms),
               LLMTRAIN_FIELD(mfu),
               LLMTRAIN_FIELD(mem_gb),
               LLMTRAIN_FIELD(skipped),
               LLMTRAIN_FIELD(data_wait_ms),
               LLMTRAIN_FIELD(loss_scale));
LLMTRAIN_EVENT(RunStarted,
               "run_started",
               LLMTRAIN_FIELD(run),
               LLMTRAIN_FIELD(world_size),
               LLMTRAIN_FIELD(first_step),
               LLMTRAIN_FIELD(total_steps),
               LLMTRAIN_FIELD(layout),
               LLMTRAIN_FIELD(parameters),
               LLMTRAIN_FIELD(compute_threads),
               LLMTRAIN_FIELD(cpu));
LLMTRAIN_EVENT(EvalReport, "eval", LLMTRAIN_FIELD(step), LLMTRAIN_FIELD(loss), LLMTRAIN_FIELD(tokens));
LLMTRAIN_EVENT(CheckpointSaved,
               "checkpoint_saved",
               LLMTRAIN_FIELD(step),
               LLMTRAIN_FIELD(path),
               LLMTRAIN_FIELD(bytes),
               LLMTRAIN_FIELD(ms));
LLMTRAIN_EVENT(
    CheckpointLoaded, "checkpoint_loaded", LLMTRAIN_FIELD(step), LLMTRAIN_FIELD(path), LLMTRAIN_FIELD(ms));
LLMTRAIN_EVENT(CheckpointRejected, "checkpoint_rejected", LLMTRAIN_FIELD(path), LLMTRAIN_FIELD(reason));
LLMTRAIN_EVENT(WorkerExited,
               "worker_exited",
               LLMTRAIN_FIELD(rank),
               LLMTRAIN_FIELD(pid),
               LLMTRAIN_FIELD(code),
               LLMTRAIN_FIELD(cause),
               LLMTRAIN_FIELD(step),
               LLMTRAIN_FIELD(phase));
LLMTRAIN_EVENT(
    Restarted, "restart", LLMTRAIN_FIELD(restarts), LLMTRAIN_FIELD(max_restarts), LLMTRAIN_FIELD(reason));
LLMTRAIN_EVENT(StragglerFound,
               "straggler",
               LLMTRAIN_FIELD(ranks),
               LLMTRAIN_FIELD(node),
               LLMTRAIN_FIELD(host),
               LLMTRAIN_FIELD(cause),
               LLMTRAIN_FIELD(step),
               LLMTRAIN_FIELD(ms),
               LLMTRAIN_FIELD(peers_ms),
               LLMTRAIN_FIELD(step_ms));
LLMTRAIN_EVENT(StragglerOver,
               "straggler_over",
               LLMTRAIN_FIELD(ranks),
               LLMTRAIN_FIELD(node),
               LLMTRAIN_FIELD(host),
               LLMTRAIN_FIELD(cause),
               LLMTRAIN_FIELD(step));
LLMTRAIN_EVENT(StopRequested, "stop_requested", LLMTRAIN_FIELD(signal));
LLMTRAIN_EVENT(
    RunFinished, "run_finished", LLMTRAIN_FIELD(code), LLMTRAIN_FIELD(step), LLMTRAIN_FIELD(reason));
LLMTRAIN_EVENT(CommTotals,
               "comm_totals",
               LLMTRAIN_FIELD(rank),
               LLMTRAIN_FIELD(axis),
               LLMTRAIN_FIELD(op),
               LLMTRAIN_FIELD(count),
               LLMTRAIN_FIELD(bytes),
               LLMTRAIN_FIELD(exposed_ms));
LLMTRAIN_EVENT(MemoryReport,
               "memory",
               LLMTRAIN_FIELD(rank),
               LLMTRAIN_FIELD(params),
               LLMTRAIN_FIELD(grads),
               LLMTRAIN_FIELD(optimizer),
               LLMTRAIN_FIELD(host_optimizer),
               LLMTRAIN_FIELD(activations_peak));
LLMTRAIN_EVENT(PhaseTotals,
               "phase_totals",
               LLMTRAIN_FIELD(rank),
               LLMTRAIN_FIELD(data_wait_ms),
               LLMTRAIN_FIELD(stage_wait_ms),
               LLMTRAIN_FIELD(forward_ms),
               LLMTRAIN_FIELD(backward_ms),
               LLMTRAIN_FIELD(reduce_ms),
               LLMTRAIN_FIELD(optimizer_ms),
               LLMTRAIN_FIELD(evaluate_ms),
               LLMTRAIN_FIELD(save_ms));
LLMTRAIN_EVENT(Note, "note", LLMTRAIN_FIELD(severity), LLMTRAIN_FIELD(rank), LLMTRAIN_FIELD(text));

#undef LLMTRAIN_FIELD
#undef LLMTRAIN_EVENT

}  // namespace llmtrain
