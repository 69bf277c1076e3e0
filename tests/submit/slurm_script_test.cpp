#include "tests/submit/submit_support.hpp"

using namespace llmtrain;
using test::holds;

namespace {

std::string script(const SubmitRequest& request) {
  const auto text = slurm_script(request);
  if (!text) FAIL(to_string(text.error()));
  return *text;
}

}  // namespace

TEST_CASE("slurm: the least, and everything", "[submit]") {
  SubmitRequest request = test::small_request();
  test::check_golden("slurm_small.sh", script(request));

  SlurmSpec& slurm = request.spec.launch.slurm;
  slurm.partition = "gpu";
  slurm.account = "lab";
  slurm.qos = "high";
  slurm.gpus_per_node = 8;
  slurm.cpus_per_task = 64;
  slurm.time = "1-00:00:00";
  slurm.signal = "USR1@300";
  slurm.exclusive = true;
  slurm.constraint = "h100&ib";
  slurm.container = "/images/llmtrain.sqsh";
  slurm.chain = SlurmChain::kArray;
  slurm.max_chain = 5;
  slurm.exclude = {"n7", "n[9-10]"};
  slurm.extra = {"--mem=0", "--reservation=r1"};
  request.spec.launch.nodes = {3, 4};
  test::check_golden("slurm_full.sh", script(request));

  slurm.chain = SlurmChain::kDependency;
  test::check_golden("slurm_dependency.sh", script(request));
}

TEST_CASE("slurm: notice before the end", "[submit]") {
  SubmitRequest request = test::small_request();
  CHECK(holds(script(request), "#SBATCH --signal=B:USR1@120\n"));
  request.save_s = 200;
  CHECK(holds(script(request), "#SBATCH --signal=B:USR1@400\n"));
  request.spec.launch.slurm.signal = "B:TERM@500";
  CHECK(holds(script(request), "#SBATCH --signal=B:TERM@500\n"));
  for (const char* wrong : {"USR2@120", "USR1@", "USR1@x", "USR1@0", "", "USR1@9999999", "USR1\n@120"}) {
    INFO(wrong);
    request.spec.launch.slurm.signal = wrong;
    CHECK_FALSE(slurm_script(request));
  }
}

TEST_CASE("slurm: GPUs are asked for when the job needs them", "[submit]") {
  SubmitRequest request = test::small_request();
  CHECK_FALSE(holds(script(request), "--gpus-per-node"));
  request.spec.run.device = Device::kCuda;
  CHECK(holds(script(request), "#SBATCH --gpus-per-node=2\n"));
}

TEST_CASE("slurm: no name leaves its place", "[submit]") {
  SubmitRequest request = test::small_request();
  request.spec.run.name = "a b'$(touch x)\n#SBATCH --uid=0";
  request.spec.run.dir = "runs/it's $(touch x)";
  request.directory = "/home/a b";
  request.command = {"/opt/llm train", "launch", "job'; touch x.yaml"};
  request.spec.launch.slurm.constraint = "a b\"c\\";
  test::check_golden("slurm_hostile.sh", script(request));

  for (std::string SlurmSpec::*field : {&SlurmSpec::partition,
                                        &SlurmSpec::account,
                                        &SlurmSpec::qos,
                                        &SlurmSpec::time,
                                        &SlurmSpec::constraint,
                                        &SlurmSpec::container}) {
    SubmitRequest broken = test::small_request();
    broken.spec.launch.slurm.*field = "a\ntouch x";
    const auto refused = slurm_script(broken);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidSpec);
    CHECK_FALSE(holds(refused.error().message, "a\ntouch"));
  }
  for (const char* option : {"mem=0", "--mem=0\ntouch x", ""}) {
    SubmitRequest broken = test::small_request();
    broken.spec.launch.slurm.extra = {option};
    CHECK_FALSE(slurm_script(broken));
  }
  SubmitRequest broken = test::small_request();
  broken.directory = "/a\nb";
  CHECK_FALSE(slurm_script(broken));
}
