#include "llmtrain/doctor/judge.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace llmtrain {
namespace {

constexpr std::uint64_t kShmForNccl = 1ull << 30;      // a node's ranks exchange through it
constexpr std::uint64_t kLockedForNccl = 64ull << 20;  // registered buffers
constexpr int kFewPorts = 1000;

using Job = std::optional<JobNeeds>;

std::string amount(std::uint64_t bytes) {
  if (bytes == kNoLimit) return "no limit";
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string count(std::uint64_t number) {
  return number == kNoLimit ? "no limit" : std::to_string(number);
}

// What a job needs fails when it is missing; without a job it is worth a word.
Health missing(bool needed) {
  return needed ? Health::kFailed : Health::kWarning;
}

Check engine_check(const EngineFacts& engine, const Job& job) {
  Check check{"engine " + engine.device, Health::kOk, engine.path, {}};
  if (engine.problem.empty()) return check;
  check.found = engine.problem;
  const bool wanted = job && job->cuda == (engine.device == "cuda");
  if (engine.device == "cuda" && !wanted) return check;  // most hosts have none and need none
  check.health = job ? (wanted ? Health::kFailed : Health::kOk) : Health::kWarning;
  if (check.health != Health::kOk) check.advice = "build it (the `release` preset), or name it with --engine";
  return check;
}

Check devices_check(const HostFacts& facts, const Job& job) {
  Check check{"devices", Health::kOk, {}, {}};
  check.found = facts.nvidia_devices == 0 ? "no NVIDIA device; jobs on the CPU need none"
                                          : fmt::format("{} NVIDIA devices, driver {}",
                                                        facts.nvidia_devices,
                                                        facts.driver.empty() ? "not found" : facts.driver);
  if (!facts.driver_problem.empty()) check.found += "; " + facts.driver_problem;
  const bool wanted = job && job->cuda;
  if (wanted && facts.nvidia_devices < job->ranks) {
    check.health = Health::kFailed;
    check.found += fmt::format("; the job puts {} ranks on this node", job->ranks);
    check.advice = "run it where each rank has a device of its own, or set run.device: cpu";
  } else if (facts.nvidia_devices > 0 && (facts.driver.empty() || !facts.driver_problem.empty())) {
    check.health = missing(wanted);
    check.advice = "install or reload the driver; `nvidia-smi` must list the devices";
  }
  return check;
}

Check memory_check(const HostFacts& facts, const Job& job) {
  Check check{"memory", Health::kOk, {}, {}};
  const std::uint64_t limit = std::min(facts.memory_total, facts.cgroup_memory);
  check.found =
      fmt::format("{} in the host, {} available", amount(facts.memory_total), amount(facts.memory_available));
  if (facts.cgroup_memory != kNoLimit)
    check.found += fmt::format("; cgroup {} allows {}", facts.cgroup, amount(facts.cgroup_memory));
  if (!job) return check;
  check.found +=
      fmt::format("; {} ranks need at least {}, without activations", job->ranks, amount(job->memory));
  if (limit < job->memory) {
    check.health = Health::kFailed;
    check.advice = "raise the limit, or spread the job: more nodes, zero_stage, pp or tp";
  } else if (facts.memory_available < job->memory) {
    check.health = Health::kWarning;
    check.advice = "other processes hold the rest: end them, or expect swapping and kills";
  }
  return check;
}

Check shm_check(const HostFacts& facts, const Job& job) {
  Check check{"/dev/shm", Health::kOk, {}, {}};
  check.found = facts.shm_bytes ? amount(*facts.shm_bytes) : "there is none";
  if (facts.shm_bytes.value_or(0) >= kShmForNccl) return check;
  check.health = Health::kWarning;
  check.found += job && !job->cuda ? "; this job does not use it" : "; NCCL wants 1 GB";
  check.advice = "for jobs on GPUs mount it larger (docker: --shm-size, kubernetes: an emptyDir in memory)";
  return check;
}

Check files_check(const HostFacts& facts, const Job& job) {
  Check check{"open files", Health::kOk, "limit " + count(facts.max_open_files), {}};
  if (!job) return check;
  check.found += fmt::format("; a process of the job needs {}", job->open_files);
  if (facts.max_open_files >= job->open_files) return check;
  check.health = Health::kFailed;
  check.advice =
      facts.max_open_files_hard >= job->open_files
          ? fmt::format("`ulimit -n {}` before the launch", std::max<std::uint64_t>(job->open_files, 1024))
          : fmt::format("the hard limit is {}: raise nofile in limits.conf or the unit's LimitNOFILE",
                        count(facts.max_open_files_hard));
  return check;
}

Check processes_check(const HostFacts& facts, const Job& job) {
  Check check{"processes", Health::kOk, "limit " + count(facts.max_processes), {}};
  if (!job) return check;
  check.found += fmt::format("; the job has {} processes and threads here", job->processes);
  if (facts.max_processes >= job->processes) return check;
  check.health = Health::kWarning;  // whose processes count, and whether root's do, differs
  check.advice = "raise `ulimit -u`";
  return check;
}

Check locked_check(const HostFacts& facts, const Job& job) {
  Check check{"locked memory", Health::kOk, "limit " + amount(facts.max_locked_memory), {}};
  if (!job || !job->cuda || facts.max_locked_memory >= kLockedForNccl) return check;
  check.health = Health::kWarning;
  check.advice = "`ulimit -l unlimited`: InfiniBand registers its buffers";
  return check;
}

Check cpu_check(const HostFacts& facts, const Job& job) {
  Check check{"cpu", Health::kOk, {}, {}};
  check.found = fmt::format(
      "{} CPUs of {}, {} NUMA nodes; {}",
      facts.cpus,
      facts.cpu_model.empty() ? "an unknown model" : facts.cpu_model,
      facts.numa_nodes,
      facts.cpu_features.empty() ? "no AVX2" : fmt::format("{}", fmt::join(facts.cpu_features, " ")));
  if (!job || job->cuda || job->threads <= facts.cpus) return check;
  check.health = Health::kWarning;
  check.found += fmt::format("; {} ranks compute with {} threads", job->ranks, job->threads);
  check.advice = "fewer ranks or train.compute_threads: threads that share a CPU wait for each other";
  return check;
}

Check pages_check(const HostFacts& facts) {
  Check check{"huge pages", Health::kOk, facts.huge_pages.empty() ? "not known" : facts.huge_pages, {}};
  if (facts.huge_pages == "never") check.advice = "`madvise` or `always` helps large buffers a little";
  return check;
}

Check clock_check(const HostFacts& facts) {
  Check check{"clock", Health::kOk, {}, {}};
  if (!facts.clock_synchronized) {
    check.found = "the system does not tell whether it is synchronized";
  } else if (*facts.clock_synchronized) {
    check.found = "synchronized";
  } else {
    check.health = Health::kWarning;
    check.found = "not synchronized; nothing is decided by it, but the times of logs differ between hosts";
    check.advice = "start chrony or systemd-timesyncd";
  }
  return check;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Check name_check(const HostFacts& facts, const Job& job) {
  const bool many = job && job->nodes > 1;
  Check check{"host name", Health::kOk, {}, {}};
  if (facts.addresses.empty()) {
    check.found = fmt::format("{} does not resolve: {}", facts.host_name, facts.resolve_problem);
    check.health = missing(many);
  } else {
    check.found = fmt::format("{} is {}", facts.host_name, fmt::join(facts.addresses, ", "));
    const bool only_here = std::all_of(facts.addresses.begin(), facts.addresses.end(), is_loopback);
    if (only_here && many) check.health = Health::kFailed;
    if (only_here) check.found += ": only this host can reach it";
  }
  if (check.health != Health::kOk)
    check.advice = "give the name an address of the network in DNS or /etc/hosts";
  return check;
}

Check ports_check(const HostFacts& facts) {
  Check check{"ports", Health::kOk, {}, {}};
  check.found = facts.ephemeral_ports > 0 ? fmt::format("{} in the range for new ones", facts.ephemeral_ports)
                                          : "one could be opened";
  if (!facts.port_problem.empty()) {
    check.health = Health::kFailed;
    check.found = "no port can be opened: " + facts.port_problem;
    check.advice = "look at `ss -s`, and at net.ipv4.ip_local_port_range";
  } else if (facts.ephemeral_ports > 0 && facts.ephemeral_ports < kFewPorts) {
    check.health = Health::kWarning;
    check.advice = "widen net.ipv4.ip_local_port_range";
  }
  return check;
}

Check directory_check(const RunDirFacts& run_dir) {
  Check check{"run directory", Health::kOk, {}, {}};
  check.found = run_dir.path == run_dir.probed
                    ? run_dir.path + " can be written"
                    : fmt::format("{} can be made in {}", run_dir.path, run_dir.probed);
  if (run_dir.problem.empty()) return check;
  check.health = Health::kFailed;
  check.found = fmt::format("{} cannot be written: {}: {}", run_dir.path, run_dir.probed, run_dir.problem);
  check.advice = "make it writable, or name another place with run.dir";
  return check;
}

Check space_check(const RunDirFacts& run_dir, const JobNeeds& job) {
  const std::uint64_t need = job.checkpoint_bytes * static_cast<std::uint64_t>(job.checkpoints_kept);
  Check check{"free space", Health::kOk, {}, {}};
  check.found = fmt::format("{} free; {} checkpoints of {} need {}",
                            amount(run_dir.free_bytes),
                            job.checkpoints_kept,
                            amount(job.checkpoint_bytes),
                            amount(need));
  if (run_dir.free_bytes >= need) return check;
  check.health = Health::kFailed;
  check.advice = "free some space, lower checkpoint.keep_last, or name another place with run.dir";
  return check;
}

}  // namespace

std::string_view to_string(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarning ? "warning" : "failed";
}

std::vector<Check> judge(const HostFacts& facts, const std::optional<JobNeeds>& job) {
  std::vector<Check> checks;
  for (const EngineFacts& engine : facts.engines) checks.push_back(engine_check(engine, job));
  checks.push_back(devices_check(facts, job));
  checks.push_back(memory_check(facts, job));
  checks.push_back(shm_check(facts, job));
  checks.push_back(files_check(facts, job));
  checks.push_back(processes_check(facts, job));
  checks.push_back(locked_check(facts, job));
  checks.push_back(cpu_check(facts, job));
  checks.push_back(pages_check(facts));
  checks.push_back(clock_check(facts));
  checks.push_back(name_check(facts, job));
  checks.push_back(ports_check(facts));
  if (facts.run_dir) {
    checks.push_back(directory_check(*facts.run_dir));
    if (job && facts.run_dir->problem.empty()) checks.push_back(space_check(*facts.run_dir, *job));
  }
  return checks;
}

bool healthy(const std::vector<Check>& checks) {
  return std::none_of(
      checks.begin(), checks.end(), [](const Check& c) { return c.health == Health::kFailed; });
}

}  // namespace llmtrain
