#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <poll.h>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/diagnosis/memory_watch.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/console_lines.hpp"
#include "llmtrain/launch/node_messages.hpp"
#include "llmtrain/launch/supervisor.hpp"
#include "llmtrain/launch/worker_process.hpp"
#include "llmtrain/launch/worker_store.hpp"

// The workers of one node: orders in, reports out.
//
// It starts, asks, kills, reaps and watches processes, and decides nothing: what an end means, and what
// comes next, is the coordinator's. Every order is carried out at once and nothing blocks; the disk of the
// logs, which may, has a thread of its own.
namespace llmtrain {

struct HandsOptions {
  WorkerLaunch worker;  // what all workers share; place, incarnation and descriptors come with the order
  // A worker whose heartbeat stands still for this long is reported; 0 = no watch.
  Milliseconds stall_limit{0};
  Tee tee;                             // whose output people see while it is written
  std::vector<pid_t> aids;             // other children of the agent, which it ends itself
  std::optional<std::string> log_dir;  // for the logs of this node; absent: logs/ of the run directory
};

class NodeHands {
 public:
  // `files` must outlive it.
  NodeHands(HandsOptions options, const RunDir& run, FileSystem& files);
  NodeHands(const NodeHands&) = delete;  // its workers' output comes back to it
  NodeHands& operator=(const NodeHands&) = delete;

  void carry_out(Instant now, const NodeOrder& order);
  void add_poll_fds(std::vector<pollfd>& fds) const;
  std::optional<Instant> deadline() const;
  // Takes in what has happened: messages, ends, silence.
  void poll(Instant now);
  std::vector<NodeReport> take_reports();
  // Those that could not be passed on come back, to be taken again before newer ones.
  void put_back(std::vector<NodeReport> reports);

  // The connection to the leader was another one: what may not have arrived is said a second time.
  void report_again();

  bool idle() const { return workers_.empty(); }
  int incarnation() const { return incarnation_; }
  std::int64_t newest_step() const;  // finished by a worker that is alive; -1 = nobody is
  // Lets go of workers that cannot be killed, and ends what they have left behind.
  void abandon();
  // The same after killing them and waiting for a second at most.
  void end_all();
  // Waits some seconds for the disk of the logs; what it has not taken then is lost, and said.
  std::optional<std::string> finish_logs();

 private:
  void carry_out(Instant now, const StartOrder& order);
  void carry_out(Instant now, const StopOrder& order);
  void carry_out(Instant now, const KillOrder& order);
  void carry_out(Instant now, const ClearOrder& order);
  void carry_out(Instant now, const FinishOrder&) { (void)now; }  // the agent's
  void carry_out(Instant now, const StoreAnswer& order);
  Status check(const StartOrder& order) const;
  Status start(const StartOrder& order);
  Status start_worker(const StartOrder& order, int local_rank, int shm_fd);
  std::filesystem::path log_directory(const StartOrder& order) const;
  Status check_logs(const std::string& directory);
  void pass_lines(Instant now);
  void read_events(WorkerProcess& worker);
  void read_stores();
  void reap();
  void look(bool stacks);
  void read_stacks(std::vector<RankNote>& notes);
  void watch(Instant now);
  RankNote look_at_worker(const WorkerProcess& worker) const;

  HandsOptions options_;
  RunDir run_;
  FileSystem& files_;
  ConsoleLines console_;                  // before the workers, whose last lines still go to it,
  LogWriter logs_;                        // and this too
  bool logs_are_usable_ = false;          // as far as was seen before the first start
  std::map<int, WorkerProcess> workers_;  // alive, by rank
  std::map<int, WorkerStore> stores_;     // on several nodes, of the same ranks
  std::set<int> garbled_;                 // ranks whose messages were not understood: said once
  std::vector<NodeReport> reports_;
  std::vector<NodeReport> left_;  // of this incarnation, those that have ended
  int incarnation_ = -1;
  MemoryWatch memory_;
  int node_ = 0;
  Instant started_{0};
  std::optional<Instant> next_look_;
  bool killing_ = false;   // ends from now on are our own doing
  bool clearing_ = false;  // NodeReady is owed
};

}  // namespace llmtrain
