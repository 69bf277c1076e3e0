#include "llmtrain/control/control_group.hpp"

#include <deque>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/control/endpoint.hpp"
#include "llmtrain/control/group_core.hpp"
#include "llmtrain/control/lease_store.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/hex.hpp"

#include "links.hpp"

namespace llmtrain {
namespace {

constexpr Milliseconds kComplainEvery{5'000};
constexpr Milliseconds kWhileResolving{20};
constexpr std::size_t kMostHeldBack = 4096;

// AF_INET or AF_INET6 if the host is loopback, AF_UNSPEC if others reach it.
int loopback_family(const std::string& host) {
  if (host == "localhost" || host.rfind("127.", 0) == 0) return AF_INET;
  return host == "::1" ? AF_INET6 : AF_UNSPEC;
}

// The core of a group with its sockets and files around it.
class SocketGroup final : public ControlGroup {
 public:
  SocketGroup(ControlOptions options, GroupCoreOptions core, FileSystem& files, std::unique_ptr<Links> links)
      : options_(std::move(options)),
        store_(options_.control_dir, files),
        links_(std::move(links)),
        core_(std::move(core), steady_now()) {}

  void add_poll_fds(std::vector<pollfd>& fds) const override {
    fds.push_back({links_->poll_fd(), POLLIN, 0});
  }
  std::optional<Instant> deadline() const override;
  GroupEvents poll(Instant now) override;

  bool leads() const override { return core_.leads(); }
  std::int64_t epoch() const override { return core_.epoch(); }
  int node() const override { return core_.node(); }
  bool lost_majority() const override { return core_.leads() && core_.membership()->lost_majority(); }
  int num_spares() const override { return core_.leads() ? core_.membership()->num_spares() : 0; }

  bool send(int node, std::string payload) override {
    return done(payload.size() <= kPayloadLimit && core_.send(node, std::move(payload)));
  }
  bool send_to_leader(std::string payload) override {
    return done(payload.size() <= kPayloadLimit && core_.send_to_leader(std::move(payload)));
  }
  void send_to_spares(const std::string& payload) override {
    if (payload.size() <= kPayloadLimit) core_.send_to_spares(payload);
    carry_out();
  }
  bool promote_spare(int node) override { return done(core_.promote_spare(steady_now(), node)); }
  void give_up(int node) override {
    core_.give_up(node);
    carry_out();
  }
  void exclude(int node, const std::string& reason) override {
    core_.exclude(node, reason);
    carry_out();
  }
  void yield_lead() override {
    core_.yield_lead();
    carry_out();
  }
  void mute(Instant until) override { muted_until_ = until; }
  void release() override;

 private:
  bool done(bool result) {
    carry_out();
    return result;
  }
  void look(Instant now);
  void hear(const LinkUp& up);
  void hear(const LinkFrame& frame);
  void hear(const LinkDown& down) { core_.closed(now_, down.link, down.gone, down.why); }
  void hear(const DialFailed& failed) { core_.dial_failed(now_, failed.why, failed.is_final); }

  void carry_out();
  void carry_out(const DialCommand& dial) {
    links_->dial(dial.to, !dial.published && options_.max_nodes > 1);
  }
  void carry_out(const SendCommand& send) {
    if (muted_until_) return hold_back(send);
    links_->send(send.link, encode(send.message));
  }
  void carry_out(const HangUpCommand& hang_up) {
    std::erase_if(held_back_, [&](const SendCommand& send) { return send.link == hang_up.link; });
    links_->hang_up(steady_now(), hang_up.link);
  }
  void hold_back(const SendCommand& send);
  void speak_again();
  void carry_out(const ClaimCommand& claim);
  void carry_out(const RenewCommand& renew) { check(store_.renew(renew.record)); }
  void carry_out(const PublishCommand& publish) { check(store_.publish(claim_, publish.legacy)); }
  void carry_out(const GroupEvent& event) { pending_.push_back(event); }
  void check(const Status& status);

  ControlOptions options_;
  LeaseStore store_;
  std::unique_ptr<Links> links_;
  GroupCore core_;
  EpochClaim claim_;
  GroupEvents pending_;
  Instant now_{0};
  std::optional<Instant> looked_at_, polled_at_, complained_at_;
  std::optional<Instant> muted_until_;
  std::deque<SendCommand> held_back_;  // while muted; at most kMostHeldBack
};

std::optional<Instant> SocketGroup::deadline() const {
  if (!pending_.empty() || !polled_at_) return Instant{0};
  if (core_.over()) return std::nullopt;
  Milliseconds wait = options_.heartbeat / (core_.settled() ? 2 : 4);
  if (links_->busy()) wait = std::min(wait, kWhileResolving);
  return *polled_at_ + wait;
}

GroupEvents SocketGroup::poll(Instant now) {
  now_ = now;
  polled_at_ = now;
  if (muted_until_ && now >= *muted_until_) speak_again();
  if (!core_.over()) {
    if (!looked_at_ || now - *looked_at_ >= options_.heartbeat / 4) look(now);
    carry_out();
    for (const LinkEvent& event : links_->poll(now)) {
      std::visit([this](const auto& e) { hear(e); }, event);
      carry_out();
    }
    core_.tick(now, [this](LinkId link) { return links_->acknowledged(link); });
    carry_out();
  } else {
    links_->poll(now);  // what is on its way out still goes
  }
  return std::exchange(pending_, {});
}

void SocketGroup::hold_back(const SendCommand& send) {
  if (std::holds_alternative<HeartbeatMessage>(send.message.body)) return;
  held_back_.push_back(send);
  if (held_back_.size() >= kMostHeldBack) speak_again();
}

void SocketGroup::speak_again() {
  muted_until_.reset();
  for (const SendCommand& send : std::exchange(held_back_, {})) carry_out(send);
}

void SocketGroup::look(Instant now) {
  looked_at_ = now;
  const auto view = store_.look();
  if (view)
    core_.lease_seen(now, *view);
  else
    core_.note_problem(to_string(view.error()));
}

void SocketGroup::hear(const LinkUp& up) {
  if (up.dialed && options_.self.address.empty()) options_.self.address = links_->local_address(up.link);
  if (up.dialed) look(now_);  // what it asks with is to be as new as it can be: the handshake took its time
  core_.linked(now_, up.link, up.dialed);
}

void SocketGroup::hear(const LinkFrame& frame) {
  const auto message = decode_message(frame.frame);
  if (message) return core_.message(now_, frame.link, *message);
  core_.closed(now_, frame.link, false, message.error().message);
  links_->hang_up(now_, frame.link);
}

void SocketGroup::carry_out() {
  while (true) {
    const GroupCommands commands = core_.take();
    if (commands.empty()) return;
    for (const GroupCommand& command : commands) std::visit([this](const auto& c) { carry_out(c); }, command);
  }
}

void SocketGroup::carry_out(const ClaimCommand& wanted) {
  const EpochClaim claim{wanted.epoch,
                         wanted.node,
                         options_.self.host,
                         options_.self.address,
                         options_.self.control_port,
                         to_hex(random_bytes(16))};
  const auto legacy = store_.legacy();
  const auto won = store_.claim(claim);
  if (!won) return core_.note_problem(to_string(won.error()));
  if (*won) claim_ = claim;
  core_.claimed(now_, *won, claim, legacy ? *legacy : Legacy());
}

// A leader whose lease cannot be written still leads those that hear it: people are told, now and then.
void SocketGroup::check(const Status& status) {
  if (status || (complained_at_ && now_ - *complained_at_ < kComplainEvery)) return;
  complained_at_ = now_;
  pending_.push_back(StillMissing{"the leader's lease cannot be renewed: " + to_string(status.error())});
}

void SocketGroup::release() {
  speak_again();
  core_.release();
  carry_out();
  const Instant until = steady_now() + Links::kFlushLimit;
  while (links_->draining() && steady_now() < until) {
    pollfd fd{links_->poll_fd(), POLLIN, 0};
    ::poll(&fd, 1, 5);
    links_->poll(steady_now());
  }
}

// Whether a group has begun in this run directory and has not ended in order: an agent of its own may still
// hold the port, stopped or not yet dead.
bool has_begun(const ControlOptions& options, FileSystem& files) {
  const auto view = LeaseStore(options.control_dir, files).look();
  return view && view->newest && (!view->lease || view->lease->state != LeaseState::kEnded);
}

// The port of a founder is the one that the others were told.
Result<bool> open_port(ControlOptions& options,
                       FileSystem& files,
                       Links& links,
                       const std::optional<Endpoint>& endpoint) {
  NodeIdentity& self = options.self;
  if (options.founder && endpoint) {
    const int loopback = loopback_family(endpoint->host);
    if (loopback == AF_UNSPEC) {
      LLMTRAIN_ASSIGN(addresses, resolve(*endpoint));
      if (options.max_nodes > 1 && is_hidden_loopback(*endpoint, addresses))
        return hidden_loopback(*endpoint, addresses);
    }
    auto port = links.listen(endpoint->port, loopback);
    if (port) {
      self.control_port = *port;
      if (loopback != AF_UNSPEC) self.address = loopback == AF_INET ? "127.0.0.1" : "::1";
      if (self.address.empty()) self.address = endpoint->host;
      return true;
    }
    const bool is_a_stranger = self.node_rank && !has_begun(options, files);
    if (is_a_stranger || port.error().code != ErrorCode::kHeld) return std::move(port).error();
  }
  LLMTRAIN_ASSIGN(port, links.listen(self.control_port, loopback_family(self.address)));
  self.control_port = port;
  return options.founder && !endpoint;
}

Status check_options(const ControlOptions& o) {
  if (o.min_nodes < 1 || o.max_nodes < o.min_nodes || o.max_nodes > 65'536)
    return Error{ErrorCode::kUsage,
                 fmt::format("{}:{} nodes: the first number is at least 1, the second at least the first",
                             o.min_nodes,
                             o.max_nodes),
                 "see --nnodes"};
  if (o.world_nodes < 0 || o.world_nodes > o.max_nodes || (o.world_nodes > 0 && o.world_nodes < o.min_nodes))
    return Error{ErrorCode::kInternal,
                 fmt::format("{} numbers for {}:{} nodes", o.world_nodes, o.min_nodes, o.max_nodes),
                 ""};
  if (o.self.node_rank && *o.self.node_rank < 0)
    return Error{ErrorCode::kUsage,
                 fmt::format("node rank {} is negative", *o.self.node_rank),
                 "ranks of nodes start at 0"};
  if (o.token.empty())
    return Error{
        ErrorCode::kUsage, "the run's token is empty", "give --rdzv-token-file a file that holds one"};
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<ControlGroup>> ControlGroup::open(ControlOptions options, FileSystem& files) {
  LLMTRAIN_TRY(check_options(options));
  if (options.world_nodes == 0) options.world_nodes = options.max_nodes;
  std::optional<Endpoint> endpoint;
  if (!options.endpoint.empty()) {
    LLMTRAIN_ASSIGN(parsed, parse_endpoint(options.endpoint));
    endpoint = parsed;
  }
  LLMTRAIN_TRY(make_directories(files, options.control_dir));
  LLMTRAIN_ASSIGN(links, Links::open(options.token));
  LLMTRAIN_ASSIGN(founds, open_port(options, files, *links, endpoint));
  if (founds && options.self.node_rank.value_or(0) >= options.world_nodes)
    return Error{ErrorCode::kUsage,
                 fmt::format("node rank {} of {} nodes", *options.self.node_rank, options.world_nodes),
                 "the node at the endpoint has rank 0"};
  GroupCoreOptions core{options.self,
                        random_bytes(16),
                        options.min_nodes,
                        options.world_nodes,
                        options.min_nodes < options.max_nodes,
                        founds,
                        endpoint,
                        options.expected_hosts,
                        options.join_timeout,
                        options.heartbeat,
                        options.silence_limit,
                        options.lease_limit};
  return std::unique_ptr<ControlGroup>(
      std::make_unique<SocketGroup>(std::move(options), std::move(core), files, std::move(links)));
}

}  // namespace llmtrain
