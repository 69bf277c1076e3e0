#include <cstdio>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/certificate.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/plants.hpp"
#include "llmtrain/job/prove_request.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/inference_fence.hpp"
#include "llmtrain/train/proof.hpp"
#include "llmtrain/train/prove.hpp"

namespace llmtrain {
namespace {

// fp64 rounds at 1e-16; a sum in another order, and an optimizer behind it, stay far below this.
constexpr double kTolerance = 1e-9;

Certificate prove(const ProveRequest& request) {
  Certificate certificate{
      .original = value_or_throw(parse_resolved(request.original_yaml, "the prove request")),
      .proved = value_or_throw(parse_resolved(request.spec_yaml, "the prove request")),
      .plant = request.plant,
      .verdict = {}};
  const Plant plant = request.plant.empty() ? Plant::kNone : value_or_throw(find_plant(request.plant)).plant;
  const std::vector<ProofReference> reference = compute_reference(certificate.proved);
  certificate.verdict = compare_ranks(certificate.proved, reference, kTolerance, plant);
  return certificate;
}

}  // namespace

int run_prove(const std::string& request_json) {
  bool equal = false;
  const int code = fenced("prove", [&] {
    const ProveRequest request = value_or_throw(prove_request_from_json(request_json));
    const Certificate certificate = prove(request);
    equal = certificate.verdict.ok();
    fmt::print("{}", request.json ? to_json(certificate) + "\n" : to_text(certificate));
  });
  if (code != to_int(ExitCode::kDone)) return code;
  return to_int(equal ? ExitCode::kDone : ExitCode::kDifferent);
}

}  // namespace llmtrain
