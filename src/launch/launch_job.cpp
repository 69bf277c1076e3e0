#include "llmtrain/launch/launch_job.hpp"

#include <csignal>

#include "llmtrain/launch/agent.hpp"
#include "llmtrain/launch/orphan_guard.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/launch/run_lock.hpp"

#include "launch_on_nodes.hpp"
#include "launch_options.hpp"

namespace llmtrain {

Result<LaunchOutcome> launch_job(const LaunchRequest& request, FileSystem& files, const MakeSink& make_sink) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // the file-size limit is an error of the write, in the workers too
  const RunDir run(request.job.spec.run.dir);
  LLMTRAIN_TRY(make_run_directory(files, run));
  LLMTRAIN_ASSIGN(guard, OrphanGuard::start());
  if (request.placement.max_nodes > 1) return launch_on_nodes(request, run, guard, files, make_sink);

  LLMTRAIN_ASSIGN(lock, RunLock::acquire((run.control() / "lock").string()));
  LLMTRAIN_TRY(check_usable(files, run, request, "probe"));
  LLMTRAIN_ASSIGN(point, find_resume_point(files, run.checkpoints().string(), 0));
  LLMTRAIN_TRY(check_has_checkpoint(request, run, point));
  LLMTRAIN_TRY(check_invariants(files, point, request.job.spec));
  if (auto text = finished_text(request, run, point)) return LaunchOutcome{ExitCode::kDone, std::move(*text)};

  LLMTRAIN_ASSIGN(incarnation, next_incarnation(files, run));
  LLMTRAIN_TRY(write_source_spec(files, run, request.job.source_yaml));
  HandsOptions hands = hands_options(request, run, guard);
  LLMTRAIN_TRY(write_log_place(files, run, hands.log_dir));
  LLMTRAIN_ASSIGN(sink, make_sink(run));
  Agent agent(std::move(hands),
              coordinator_options(request, run, files, incarnation, point),
              stop_signals(request),
              run,
              files,
              *sink);
  return LaunchOutcome{agent.run(), {}};
}

}  // namespace llmtrain
