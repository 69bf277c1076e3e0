#include "llmtrain/doctor/read_host.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/cgroup_limit.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/job/engine_abi.hpp"

namespace llmtrain {
namespace {

std::string slurp(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void read_name(HostFacts& facts) {
  char name[256] = "?";
  ::gethostname(name, sizeof name - 1);
  facts.host_name = name;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(name, nullptr, &hints, &list);
  if (error != 0) {
    facts.resolve_problem = ::gai_strerror(error);
    return;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      facts.addresses.emplace_back(text);
  }
  ::freeaddrinfo(list);
}

void read_cpu(HostFacts& facts) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) facts.cpus = CPU_COUNT(&allowed);
  std::istringstream lines(slurp("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (facts.cpu_model.empty() && line.starts_with("model name")) facts.cpu_model = line.substr(colon + 2);
    if (!line.starts_with("flags")) continue;
    const std::string flags = line.substr(colon + 1) + " ";
    for (const char* flag : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"})
      if (flags.find(fmt::format(" {} ", flag)) != std::string::npos) facts.cpu_features.emplace_back(flag);
    break;
  }
  int nodes = 0;
  std::error_code error;
  while (std::filesystem::exists(fmt::format("/sys/devices/system/node/node{}", nodes), error)) ++nodes;
  facts.numa_nodes = std::max(1, nodes);
  const std::string pages = slurp("/sys/kernel/mm/transparent_hugepage/enabled");  // always [madvise] never
  const std::size_t open = pages.find('[');
  const std::size_t close = pages.find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    facts.huge_pages = pages.substr(open + 1, close - open - 1);
}

void read_memory(HostFacts& facts) {
  std::istringstream lines(slurp("/proc/meminfo"));
  std::string key, unit;
  std::uint64_t kilobytes = 0;
  while (lines >> key >> kilobytes) {
    std::getline(lines, unit);
    if (key == "MemTotal:") facts.memory_total = kilobytes * 1024;
    if (key == "MemAvailable:") facts.memory_available = kilobytes * 1024;
  }
  const CgroupLimit limit = cgroup_memory_limit(slurp("/proc/self/cgroup"), "/sys/fs/cgroup");
  facts.cgroup_memory = limit.value;
  facts.cgroup = limit.group;
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) == 0)
    facts.shm_bytes = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
}

std::uint64_t limit_of(rlim_t value) {
  return value == RLIM_INFINITY ? kNoLimit : value;
}

void read_limits(HostFacts& facts) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.max_open_files = limit_of(limit.rlim_cur);
    facts.max_open_files_hard = limit_of(limit.rlim_max);
  }
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) facts.max_processes = limit_of(limit.rlim_cur);
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.max_locked_memory = limit_of(limit.rlim_cur);
  timex clock{};
  if (const int state = ::adjtimex(&clock); state >= 0)
    facts.clock_synchronized = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}

void read_ports(HostFacts& facts) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(fd.get(), 1) != 0)
    facts.port_problem = std::strerror(errno);
  std::istringstream range(slurp("/proc/sys/net/ipv4/ip_local_port_range"));
  int low = 0, high = 0;
  if (range >> low >> high) facts.ephemeral_ports = std::max(0, high - low + 1);
}

// Three functions of the driver's library, which may not be there.
void read_devices(HostFacts& facts) {
  std::error_code error;
  int files = 0;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", files), error)) ++files;
  facts.nvidia_devices = files;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto version =
      reinterpret_cast<int (*)(char*, unsigned)>(::dlsym(library, "nvmlSystemGetDriverVersion"));
  const auto count = reinterpret_cast<int (*)(unsigned*)>(::dlsym(library, "nvmlDeviceGetCount_v2"));
  if (init == nullptr || version == nullptr || count == nullptr) return;
  if (const int code = init(); code != 0) {
    if (files > 0) facts.driver_problem = fmt::format("the driver's library answers with error {}", code);
    return;
  }
  char text[96] = "";
  if (version(text, sizeof text) == 0) facts.driver = text;
  unsigned devices = 0;
  if (count(&devices) == 0) facts.nvidia_devices = static_cast<int>(devices);
}

void open_engine(EngineFacts& engine) {
  if (!engine.problem.empty()) return;
  void* const library = ::dlopen(engine.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    engine.problem = fmt::format("cannot be opened: {}", why == nullptr ? "?" : why);
    return;
  }
  const auto abi = reinterpret_cast<EngineAbiFunction>(::dlsym(library, kEngineAbiSymbol));
  if (abi == nullptr)
    engine.problem = engine.path + " is not an llmtrain engine";
  else if (abi() != kEngineAbi)
    engine.problem =
        fmt::format("{} speaks interface {}, this executable speaks {}", engine.path, abi(), kEngineAbi);
}

}  // namespace

HostFacts read_host(std::vector<EngineFacts> engines, const std::string& run_dir) {
  HostFacts facts;
  read_name(facts);
  read_cpu(facts);
  read_memory(facts);
  read_limits(facts);
  read_ports(facts);
  read_devices(facts);
  facts.engines = std::move(engines);
  for (EngineFacts& engine : facts.engines) open_engine(engine);
  if (!run_dir.empty()) facts.run_dir = probe_run_dir(run_dir);
  return facts;
}

}  // namespace llmtrain
