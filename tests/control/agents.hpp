#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

#include <fmt/format.h>

#include "llmtrain/control/control_group.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// Several agents of one job in this process, with real sockets on loopback and real files, polled in turn.
namespace llmtrain::test {

class Agents {
 public:
  ControlOptions options(int nodes) const {
    ControlOptions o;
    o.self.rdzv_id = "job";
    o.self.build = o.self.job_digest = o.self.data_digest = "same";
    o.self.address = "127.0.0.1";
    o.min_nodes = o.max_nodes = nodes;
    o.control_dir = directory_ / "control";
    o.token = "a token of this run";
    o.heartbeat = Milliseconds{100};
    o.silence_limit = Milliseconds{1'500};
    o.lease_limit = Milliseconds{1'000};
    o.join_timeout = Milliseconds{30'000};
    return o;
  }
  ControlOptions founder(int nodes) const {
    ControlOptions o = options(nodes);
    o.self.host = "host0";
    o.self.node_rank = 0;
    o.founder = true;
    o.endpoint = "127.0.0.1:0";
    return o;
  }
  ControlOptions node(int nodes, int rank) const {
    ControlOptions o = options(nodes);
    o.self.host = fmt::format("host{}", rank);
    o.self.node_rank = rank;
    return o;
  }

  int add(const ControlOptions& o) {
    auto group = ControlGroup::open(o, *files_);
    if (!group) FAIL(to_string(group.error()));
    groups_[++last_] = std::move(*group);
    return last_;
  }
  ControlGroup& operator[](int agent) { return *groups_.at(agent); }
  void kill(int agent) { groups_.erase(agent); }  // its sockets close, nothing is said
  void stop(int agent) { stopped_[agent] = true; }
  void resume(int agent) { stopped_.erase(agent); }
  const std::string directory() const { return directory_.path(); }

  // Polls everybody until it is so. The limit is a safety net, not a measurement.
  void until(const std::function<bool()>& done, const char* what, Milliseconds limit = Milliseconds{40'000}) {
    const Instant end = steady_now() + limit;
    while (!done()) {
      if (steady_now() > end) FAIL("not in time: " << what << "\n" << story());
      turn();
    }
  }
  void for_some_time(Milliseconds time) {
    const Instant end = steady_now() + time;
    while (steady_now() < end) turn();
  }

  // The first event of this kind that was not taken yet.
  template <class Event>
  std::optional<Event> take(int agent) {
    auto& events = events_[agent];
    for (auto event = events.begin(); event != events.end(); ++event)
      if (auto* found = std::get_if<Event>(&*event)) {
        std::optional<Event> result(std::move(*found));
        events.erase(event);
        return result;
      }
    return std::nullopt;
  }
  template <class Event>
  Event wait(int agent, const char* what) {
    std::optional<Event> event;
    until([&] { return (event = take<Event>(agent)).has_value(); }, what);
    return *event;
  }
  template <class Event>
  bool saw(int agent) {
    for (const GroupEvent& event : events_[agent])
      if (std::holds_alternative<Event>(event)) return true;
    return false;
  }

  std::string story() {
    std::string text;
    for (auto& [agent, group] : groups_) {
      text += fmt::format("agent {}: epoch {}, node {}{}; events",
                          agent,
                          group->epoch(),
                          group->node(),
                          group->leads() ? ", leads" : "");
      for (const GroupEvent& event : events_[agent]) {
        text += fmt::format(" {}", event.index());
        if (const auto* missing = std::get_if<StillMissing>(&event))
          text += fmt::format(" ({})", missing->text);
        if (const auto* refused = std::get_if<JoinRefused>(&event))
          text += fmt::format(" ({})", refused->message);
      }
      text += "\n";
    }
    return text;
  }

 private:
  void turn() {
    std::vector<pollfd> fds;
    const Instant now = steady_now();
    Milliseconds wait{20};
    for (auto& [agent, group] : groups_) {
      if (stopped_.count(agent) != 0) continue;
      group->add_poll_fds(fds);
      if (const auto due = group->deadline()) wait = std::clamp(*due - now, Milliseconds{0}, wait);
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
    for (auto& [agent, group] : groups_) {
      if (stopped_.count(agent) != 0) continue;
      for (GroupEvent& event : group->poll(steady_now())) events_[agent].push_back(std::move(event));
    }
  }

  TemporaryDirectory directory_;
  std::unique_ptr<FileSystem> files_ = make_posix_filesystem();
  std::map<int, std::unique_ptr<ControlGroup>> groups_;
  std::map<int, GroupEvents> events_;
  std::map<int, bool> stopped_;
  int last_ = 0;
};

}  // namespace llmtrain::test
