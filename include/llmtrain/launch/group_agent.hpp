#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/control/control_group.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/background_search.hpp"
#include "llmtrain/launch/coordinator.hpp"
#include "llmtrain/launch/node_hands.hpp"
#include "llmtrain/launch/run_lock.hpp"
#include "llmtrain/launch/stop_signals.hpp"
#include "llmtrain/monitor/events.hpp"

// The agent of one of several nodes: hands always, and a coordinator while it leads.
//
// One thread, one poll loop over the group of agents, process descriptors, sockets of workers, stop signals
// and deadlines. Whoever leads, reports go to the coordinator and orders come from it; a node that loses
// its leader lets its workers train, or end by themselves, until somebody leads again.
namespace llmtrain {

// What a node needs while it leads.
struct Leadership {
  std::optional<RunLock> lock;  // absent: a leader before still holds it and cannot let go
  std::unique_ptr<EventSink> sink;
  std::unique_ptr<Coordinator> coordinator;
};

// A fault of the kind drop_heartbeats: once, when the workers of this node are so far.
struct Silence {
  int node = -1;           // -1 = any
  int incarnation = 0;     // -1 = any
  std::int64_t step = -1;  // that some worker here has finished
  Milliseconds length{0};
};

struct GroupAgentOptions {
  HandsOptions hands;
  std::vector<int> stop_signals;
  std::function<void(const std::string&)> say;  // sentences for the console of this node
  // The checkpoint from which this node would lead; called on another thread.
  std::function<Result<ResumePoint>()> find_checkpoint;
  struct Epoch {
    std::int64_t epoch = 0;
    int node = 0;
    bool successor = false;  // this process has been part of the group before
  };
  std::vector<Silence> silences;
  // Its error ends the agent, and the job. An absent coordinator means that the run is finished.
  std::function<Result<Leadership>(const Epoch&, const ResumePoint&)> lead;
};

class GroupAgent {
 public:
  // `group` and `files` must outlive the agent.
  GroupAgent(GroupAgentOptions options, ControlGroup& group, const RunDir& run, FileSystem& files);

  // Runs the job to its end and returns its code. No process of the job is left on this node then.
  ExitCode run();

 private:
  void wait(const StopSignals& signals) const;
  void handle_signal(Instant now, const std::string& name);

  void handle(Instant now, const BecameLeader& event);
  void handle(Instant now, const FollowsLeader& event);
  void handle(Instant now, const LeaderSilent& event);
  void handle(Instant now, const LeaderBack& event);
  void handle(Instant now, const LeaderLost& event);
  void handle(Instant now, const Fenced& event);
  void handle(Instant now, const MemberJoined& event);
  void handle(Instant now, const SpareJoined& event);
  void handle(Instant now, const MemberSilent& event);
  void handle(Instant now, const MemberBack& event);
  void handle(Instant now, const MemberLost& event);
  void handle(Instant now, const Received& event);
  void handle(Instant now, const StillMissing& event);
  void handle(Instant now, const JoinRefused& event);
  void handle(Instant now, const JoinTimedOut& event);

  void dispatch(Instant now, const GroupEvent& event);
  void begin_to_lead(Instant now);
  void exchange(Instant now);
  bool pass_reports(Instant now);
  bool pass_orders(Instant now);
  void change_membership();
  void fall_silent(Instant now);
  void meet_leader(std::int64_t epoch);
  void end(ExitCode code, const std::string& reason);
  Coordinator* coordinator() const { return leadership_.coordinator.get(); }

  GroupAgentOptions options_;
  ControlGroup& group_;
  NodeHands hands_;
  Leadership leadership_;
  BackgroundSearch search_;         // of a node that is about to lead
  GroupEvents held_;                // what happened to the others meanwhile
  std::vector<std::string> asked_;  // stop signals that nobody has been told of
  std::optional<GroupAgentOptions::Epoch> leading_;
  bool was_member_ = false;
  bool follows_ = false;
  bool garbled_ = false;
  int signals_ = 0;
  std::string signal_;      // the first of them
  std::int64_t epoch_ = 0;  // of the newest leader
  std::optional<ExitCode> code_;
};

}  // namespace llmtrain
