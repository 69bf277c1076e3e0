#include "tests/submit/submit_support.hpp"

using namespace llmtrain;
using test::holds;

namespace {

std::string manifest(SubmitTarget target, const SubmitRequest& request) {
  const auto text = generate_submission(target, request);
  if (!text) FAIL(to_string(text.error()));
  return *text;
}

constexpr SubmitTarget kTargets[] = {
    SubmitTarget::kKubernetes, SubmitTarget::kVolcano, SubmitTarget::kKubeflow};

}  // namespace

TEST_CASE("manifests: as they were last time", "[submit]") {
  const SubmitRequest request = test::pod_request();
  test::check_golden("kubernetes.yaml", manifest(SubmitTarget::kKubernetes, request));
  test::check_golden("volcano.yaml", manifest(SubmitTarget::kVolcano, request));
  test::check_golden("kubeflow.yaml", manifest(SubmitTarget::kKubeflow, request));
}

TEST_CASE("manifests: hostile names and GPUs", "[submit]") {
  SubmitRequest request = test::pod_request();
  request.spec.run.name = "A b\"\n---\nkind: Pod";
  request.spec.run.device = Device::kCuda;
  request.spec.launch.nodes = {2, 3};
  request.job_text = "run: {name: \"x\"} # $(HOME) \t\n---\n";
  request.mount = "/a 'b\" $(c)";
  request.command = {"--nproc-per-node", "$(touch x)"};
  test::check_golden("kubernetes_hostile.yaml", manifest(SubmitTarget::kKubernetes, request));
  test::check_golden("volcano_hostile.yaml", manifest(SubmitTarget::kVolcano, request));
  test::check_golden("kubeflow_hostile.yaml", manifest(SubmitTarget::kKubeflow, request));
}

TEST_CASE("manifests: what is missing or breaks a line is refused", "[submit]") {
  for (const SubmitTarget target : kTargets) {
    SubmitRequest request = test::pod_request();
    request.image.clear();
    const auto refused = generate_submission(target, request);
    REQUIRE_FALSE(refused);
    CHECK(holds(refused.error().message, "--image"));
    request = test::pod_request();
    request.claim = "a\nb";
    CHECK_FALSE(generate_submission(target, request));
    request = test::pod_request();
    request.mount = "relative";
    CHECK_FALSE(generate_submission(target, request));
  }
}
