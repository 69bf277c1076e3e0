#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "llmtrain/core/cgroup_limit.hpp"
#include "llmtrain/doctor/judge.hpp"
#include "llmtrain/doctor/read_host.hpp"
#include "llmtrain/job/load_job.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

HostFacts good_host() {
  HostFacts facts;
  facts.host_name = "n0";
  facts.addresses = {"10.0.0.5"};
  facts.cpus = 16;
  facts.cpu_model = "a CPU";
  facts.cpu_features = {"avx2"};
  facts.huge_pages = "madvise";
  facts.memory_total = facts.memory_available = 64 * kGiB;
  facts.shm_bytes = 32 * kGiB;
  facts.max_open_files = 4096;
  facts.max_open_files_hard = 65536;
  facts.max_locked_memory = kNoLimit;
  facts.clock_synchronized = true;
  facts.ephemeral_ports = 28232;
  facts.engines = {{"cpu", "/opt/libllmtrain_engine_cpu.so", ""}, {"cuda", "", "missing"}};
  facts.run_dir = RunDirFacts{"runs/r", "/data", "", 100 * kGiB};
  return facts;
}

JobNeeds small_job() {
  JobNeeds job;
  job.ranks = job.world_size = job.threads = 2;
  job.memory = kGiB;
  job.checkpoint_bytes = kGiB;
  job.checkpoints_kept = 4;
  job.open_files = 80;
  job.processes = 20;
  return job;
}

const Check& find(const std::vector<Check>& checks, const std::string& name) {
  const auto found =
      std::find_if(checks.begin(), checks.end(), [&](const Check& c) { return c.name == name; });
  REQUIRE(found != checks.end());
  return *found;
}

// What `change` makes of the check called `name`: with the job and without one.
template <class Change>
std::pair<Health, Health> verdicts(const std::string& name, Change&& change, JobNeeds job = small_job()) {
  HostFacts facts = good_host();
  change(facts, job);
  const Check with = find(judge(facts, job), name);
  const Check without = find(judge(facts, std::nullopt), name);
  CHECK((with.health == Health::kOk) == with.advice.empty());
  return {with.health, without.health};
}

using Pair = std::pair<Health, Health>;
constexpr Health kOk = Health::kOk;
constexpr Health kWarning = Health::kWarning;
constexpr Health kFailed = Health::kFailed;

}  // namespace

TEST_CASE("doctor: a good host is well with a job and without one", "[doctor]") {
  for (const auto& checks : {judge(good_host(), small_job()), judge(good_host(), std::nullopt)}) {
    CHECK(healthy(checks));
    for (const Check& check : checks) {
      INFO(check.name << ": " << check.found);
      CHECK(check.health == Health::kOk);
      CHECK(check.advice.empty());
      CHECK_FALSE(check.found.empty());
    }
  }
}

TEST_CASE("doctor: what a job needs and the host has not is a failure, and only with a job", "[doctor]") {
  CHECK(verdicts("open files", [](HostFacts& f, JobNeeds&) { f.max_open_files = 32; }) == Pair{kFailed, kOk});
  CHECK(verdicts("memory", [](HostFacts& f, JobNeeds&) { f.cgroup_memory = kGiB / 2; }) ==
        Pair{kFailed, kOk});
  CHECK(verdicts("memory", [](HostFacts& f, JobNeeds&) { f.memory_total = kGiB / 2; }) == Pair{kFailed, kOk});
  CHECK(verdicts("memory", [](HostFacts& f, JobNeeds&) { f.memory_available = kGiB / 2; }) ==
        Pair{kWarning, kOk});
  CHECK(verdicts("engine cpu", [](HostFacts& f, JobNeeds&) { f.engines[0].problem = "?"; }) ==
        Pair{kFailed, kWarning});
  CHECK(verdicts("engine cuda", [](HostFacts& f, JobNeeds&) { f.engines[0].problem = "?"; }) ==
        Pair{kOk, kOk});
  CHECK(verdicts("engine cuda", [](HostFacts&, JobNeeds& j) { j.cuda = true; }) == Pair{kFailed, kOk});
  CHECK(verdicts("devices", [](HostFacts&, JobNeeds& j) { j.cuda = true; }) == Pair{kFailed, kOk});
  CHECK(verdicts("processes", [](HostFacts& f, JobNeeds&) { f.max_processes = 3; }) == Pair{kWarning, kOk});
  CHECK(verdicts("cpu", [](HostFacts& f, JobNeeds&) { f.cpus = 1; }) == Pair{kWarning, kOk});
}

TEST_CASE("doctor: what only costs comfort is a warning", "[doctor]") {
  CHECK(verdicts("/dev/shm", [](HostFacts& f, JobNeeds&) { f.shm_bytes = 64 << 20; }) ==
        Pair{kWarning, kWarning});
  CHECK(verdicts("/dev/shm", [](HostFacts& f, JobNeeds&) { f.shm_bytes.reset(); }) ==
        Pair{kWarning, kWarning});
  CHECK(verdicts("clock", [](HostFacts& f, JobNeeds&) { f.clock_synchronized = false; }) ==
        Pair{kWarning, kWarning});
  CHECK(verdicts("clock", [](HostFacts& f, JobNeeds&) { f.clock_synchronized.reset(); }) == Pair{kOk, kOk});
  CHECK(verdicts("ports", [](HostFacts& f, JobNeeds&) { f.ephemeral_ports = 10; }) ==
        Pair{kWarning, kWarning});
  CHECK(verdicts("ports", [](HostFacts& f, JobNeeds&) { f.port_problem = "no"; }) == Pair{kFailed, kFailed});
}

TEST_CASE("doctor: a host name that nobody else can reach fails jobs over several nodes", "[doctor]") {
  const auto loopback = [](HostFacts& f, JobNeeds&) { f.addresses = {"127.0.1.1", "::1"}; };
  const auto nothing = [](HostFacts& f, JobNeeds&) { f.addresses.clear(); };
  JobNeeds many = small_job();
  many.nodes = 2;
  CHECK(verdicts("host name", loopback) == Pair{kOk, kOk});
  CHECK(verdicts("host name", loopback, many) == Pair{kFailed, kOk});
  CHECK(verdicts("host name", nothing) == Pair{kWarning, kWarning});
  CHECK(verdicts("host name", nothing, many) == Pair{kFailed, kWarning});
}

TEST_CASE("doctor: a run directory that cannot be written, or is too full, is a failure", "[doctor]") {
  CHECK(verdicts("run directory", [](HostFacts& f, JobNeeds&) {
          f.run_dir->problem = "Read-only file system";
        }) == Pair{kFailed, kFailed});
  JobNeeds large = small_job();
  large.checkpoint_bytes = 30 * kGiB;  // four of them
  const Check space = find(judge(good_host(), large), "free space");
  CHECK(space.health == Health::kFailed);
  CHECK(space.advice.find("checkpoint.keep_last") != std::string::npos);
}

TEST_CASE("doctor: the smallest limit of the hierarchy counts, in both versions of cgroups", "[doctor]") {
  const test::TemporaryDirectory mount;
  const auto put = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(mount / path).parent_path());
    std::ofstream(mount / path) << text << "\n";
  };
  CHECK(cgroup_memory_limit("0::/a/b\n", mount.path()).value == kNoLimit);
  put("a/b/memory.max", "max");
  put("a/memory.max", "1000000");
  put("memory.max", "2000000");
  CHECK(cgroup_memory_limit("0::/a/b\n", mount.path()).value == 1'000'000);
  CHECK(cgroup_memory_limit("0::/a/b\n", mount.path()).group == "/a");
  CHECK(cgroup_memory_limit("0::/\n", mount.path()).value == 2'000'000);
  put("memory/x/memory.limit_in_bytes", "300000");
  put("memory/memory.limit_in_bytes", "9223372036854771712");
  const std::string both = "5:cpu,cpuacct:/x\n4:memory:/x\n0::/a\n";
  CHECK(cgroup_memory_limit(both, mount.path()).value == 300'000);
  CHECK(cgroup_memory_limit("4:memory:/gone/away\n", mount.path()).value == kNoLimit);
  CHECK(cgroup_memory_limit("garbage\n::\n", mount.path()).value == 2'000'000);
}

TEST_CASE("doctor: looking at a run directory leaves nothing behind", "[doctor]") {
  const test::TemporaryDirectory directory;
  const RunDirFacts here = probe_run_dir(directory.path());
  CHECK(here.problem.empty());
  CHECK(here.probed == directory.path());
  CHECK(here.free_bytes > 0);
  const RunDirFacts below = probe_run_dir(directory / "not/yet/there");
  CHECK(below.problem.empty());
  CHECK(below.probed == directory.path());
  CHECK(fs::is_empty(directory.path()));
  std::ofstream(directory / "file") << "x";
  CHECK_FALSE(probe_run_dir(directory / "file").problem.empty());
  CHECK_FALSE(probe_run_dir(directory / "file/below").problem.empty());
  CHECK_FALSE(probe_run_dir("/proc/no/such/place").problem.empty());
}

TEST_CASE("doctor: a job's needs grow with its ranks, and the host that runs this test can be read",
          "[doctor]") {
  const auto needs = [](const std::string& dp) {
    JobSource source;
    const std::string text =
        "version: 1\nmodel: {vocab_size: 32, hidden_size: 16, num_layers: 2, num_heads: 4}\n"
        "data: {seq_length: 8, train: [{path: synthetic}]}\nbatch: {micro_batch_size: 2}\n"
        "train: {duration: 100 steps}\nparallelism: {dp: " +
        dp + "}\n";
    const JobReport report = check_job_text(text, "job", source);
    REQUIRE(report.job);
    return needs_of(report.job->spec);
  };
  const JobNeeds one = needs("1");
  const JobNeeds four = needs("4");
  CHECK(one.checkpoint_bytes > 0);
  CHECK(four.checkpoint_bytes == one.checkpoint_bytes);
  CHECK(four.memory > 3 * one.memory);
  CHECK(four.open_files > one.open_files);
  CHECK(one.open_files > 32);
  CHECK(one.checkpoints_kept == 4);

  const HostFacts facts = read_host({}, "");
  CHECK(facts.cpus >= 1);
  CHECK(facts.memory_total > (64 << 20));
  CHECK_FALSE(facts.host_name.empty());
  CHECK(facts.max_open_files > 16);
}

TEST_CASE("doctor: the keys of the JSON are stable", "[doctor]") {
  HostFacts facts = good_host();
  facts.max_open_files = 32;
  const auto json = nlohmann::json::parse(doctor_json(facts, judge(facts, small_job())));
  CHECK(json["schema"] == 1);
  CHECK(json["healthy"] == false);
  for (const char* key : {"check", "verdict", "found", "advice"}) CHECK(json["checks"][0].contains(key));
  const std::string text = doctor_text(facts, judge(facts, small_job()));
  CHECK(text.find("failed   open files     limit 32; a process of the job needs 80") != std::string::npos);
  CHECK(text.find("`ulimit -n 1024` before the launch") != std::string::npos);
}
