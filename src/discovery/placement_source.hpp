#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llmtrain/discovery/node_discovery.hpp"

// What one source (flags, torchrun's variables, Slurm, MPI, the job) says of a node's place, with the name of
// the flag or variable behind every value. Merging them is node_discovery's part.
namespace llmtrain {

template <class T>
struct Stated {
  T value;
  std::string origin;
};
template <class T>
using MaybeStated = std::optional<Stated<T>>;

struct NodeRange {
  int min = 1;
  int max = 1;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

struct PlacementSource {
  MaybeStated<NodeRange> nodes;
  MaybeStated<int> node_rank;
  MaybeStated<int> procs_per_node;
  MaybeStated<std::string> endpoint;  // host:port, the default port filled in
  MaybeStated<std::string> rdzv_id;
  MaybeStated<double> time_limit_end;
  MaybeStated<int> max_restarts;
  MaybeStated<std::string> log_dir;
  MaybeStated<std::string> tee;
  std::string host;
  std::vector<std::string> hosts;
  std::string job_name;
  std::string shell_only;  // says why the scheduler's variables do not place this process; "" when they do
};

Result<PlacementSource> stated_by_flags(const LaunchFlags& flags);
Result<PlacementSource> stated_by_torchrun(const Environment& environment);
Result<PlacementSource> stated_by_slurm(const Environment& environment);
Result<PlacementSource> stated_by_ranks(const Environment& environment);  // MASTER_ADDR, RANK, OMPI_*, PMIX_*
Result<PlacementSource> stated_by_job(const LaunchSpec& launch, double now);

// ---- reading values; `origin` names the flag or variable in messages ----
// Absent when unset or empty.
std::optional<std::string> variable(const Environment& environment, std::string_view name);
Result<int> whole_number(std::string_view text, int low, int high, const std::string& origin);
Result<MaybeStated<int>> number_of(const Environment& environment, std::string_view name, int low, int high);
Result<NodeRange> node_range(std::string_view text, const std::string& origin);
// "90", "90s", "30m", "2h", "1d", and Slurm's "MM:SS", "HH:MM:SS", "D-HH:MM:SS"; seconds.
Result<double> time_span(std::string_view text, const std::string& origin);
Result<std::string> tee_choice(std::string_view text, const std::string& origin);

}  // namespace llmtrain
