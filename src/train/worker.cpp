#include "llmtrain/train/worker.hpp"

#include <exception>

#include <fmt/format.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/train/build.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/rank_context.hpp"
#include "llmtrain/train/trainer.hpp"

namespace llmtrain {
namespace {

// The last word of a rank. The agent shows the end of the log of the rank that failed first.
int leave(int code, const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return code;
}

int train(RankContext& context) {
  Rank rank(context);
  const Trainer::Outcome outcome = rank.trainer().run();
  rank.close();
  context.black_box->enter(Phase::kFinished);
  return outcome == Trainer::Outcome::kFinished ? to_int(ExitCode::kDone) : to_int(WorkerExit::kStoppedSaved);
}

int train_fenced(RankContext& context) {
  try {
    context.faults.at("start", 0);
    return train(context);
  } catch (const CommError& error) {
    return leave(to_int(WorkerExit::kLostPeer), error);
  } catch (const Diverged& error) {
    return leave(to_int(ExitCode::kDiverged), error);
  } catch (const ErrorException& error) {
    return leave(to_int(exit_code_for(error.error().code)), error);
  } catch (const std::exception& error) {
    return leave(to_int(ExitCode::kInternal), error);
  }
}

}  // namespace

int run_worker(const std::string& request_json) {
  try {
    RankContext context = make_rank_context(request_json);
    return train_fenced(context);
  } catch (const ErrorException& error) {
    fmt::print(stderr, "llmtrain worker: {}\n", error.what());
    return to_int(exit_code_for(error.error().code));
  } catch (const std::exception& error) {
    fmt::print(stderr, "llmtrain worker: {}\n", error.what());
    return to_int(ExitCode::kInternal);
  }
}

}  // namespace llmtrain
