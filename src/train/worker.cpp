#include "llmtrain/train/worker.hpp"

#include <exception>
#include <new>
#include <string>

#include <fmt/format.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/train/build.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/error_file.hpp"
#include "llmtrain/train/faults.hpp"
#include "llmtrain/train/rank_context.hpp"
#include "llmtrain/train/trainer.hpp"

namespace llmtrain {
namespace {

// The last word of a rank. The agent shows the end of the log of the rank that failed first.
int leave(const std::string& error_file, const char* type, int code, const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  write_error_file(error_file, {.type = type, .text = error.what(), .code = code, .trace = {}});
  return code;
}

int train(RankContext& context) {
  Rank rank(context);
  const Trainer::Outcome outcome = rank.trainer().run();
  rank.close();
  context.black_box->enter(Phase::kFinished);
  context.faults.at("leave", 0);
  return outcome == Trainer::Outcome::kFinished ? to_int(ExitCode::kDone) : to_int(WorkerExit::kStoppedSaved);
}

int train_fenced(RankContext& context) {
  const std::string& file = context.request.error_file;
  try {
    context.faults.at("start", 0);
    return train(context);
  } catch (const CommError& error) {
    return leave(file, "CommError", to_int(WorkerExit::kLostPeer), error);
  } catch (const Diverged& error) {
    return leave(file, "Diverged", to_int(ExitCode::kDiverged), error);
  } catch (const ErrorException& error) {
    return leave(file, "Error", to_int(exit_code_for(error.error().code)), error);
  } catch (const InjectedFault& error) {
    return leave(file, "InjectedFault", to_int(ExitCode::kInternal), error);
  } catch (const std::bad_alloc& error) {
    return leave(file, "OutOfMemory", to_int(ExitCode::kInternal), error);
  } catch (const std::exception& error) {
    return leave(file, "Exception", to_int(ExitCode::kInternal), error);
  }
}

// Before there is a context the request says where an error goes, if it can be read.
std::string error_file_of(const std::string& request_json) {
  const auto request = worker_request_from_json(request_json);
  return request ? request->error_file : "";
}

}  // namespace

int run_worker(const std::string& request_json) {
  try {
    RankContext context = make_rank_context(request_json);
    return train_fenced(context);
  } catch (const ErrorException& error) {
    return leave(error_file_of(request_json), "Error", to_int(exit_code_for(error.error().code)), error);
  } catch (const std::exception& error) {
    return leave(error_file_of(request_json), "Exception", to_int(ExitCode::kInternal), error);
  }
}

}  // namespace llmtrain
