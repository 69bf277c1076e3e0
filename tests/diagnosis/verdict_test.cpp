#include "llmtrain/diagnosis/verdict.hpp"

#include <nlohmann/json.hpp>

#include "llmtrain/diagnosis/worker_reports.hpp"

#include "tests/diagnosis/scene.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using test::call;
using test::Scene;

namespace {

using Ranks = std::vector<int>;

void expect(const Scene& scene,
            FailureKind kind,
            const Ranks& culprits,
            const std::string& paragraph,
            Confidence confidence = Confidence::kHigh) {
  const FailureVerdict verdict = scene.judged();
  CHECK(to_string(verdict.kind) == to_string(kind));
  CHECK(verdict.culprits == culprits);
  CHECK(to_string(verdict.confidence) == to_string(confidence));
  CHECK(verdict.paragraph == paragraph);
}

}  // namespace

TEST_CASE("verdict: a signal is the cause, lost peers are its consequences", "[diagnosis]") {
  Scene scene(4);
  scene.in(0, call("all_reduce", 17, "dp")).in(1, call("all_reduce", 17, "dp"));
  scene.in(2, call("all_reduce", 17, "dp")).past(3, call("all_reduce", 16, "dp"), "backward");
  scene.exited(0, 80, 2).exited(1, 80, 3).exited(2, 80, 0).signaled(3, 9, 5);
  expect(scene,
         FailureKind::kSignal,
         {3},
         "Rank 3 on node 1 (host1) ended by itself: signal 9 (SIGKILL), in backward of "
         "step 9; its last call was all_reduce 16 of dp (1024 bytes). Ranks 0-2 wait for "
         "it in all_reduce 17 of dp (1024 bytes).");
  const FailureVerdict verdict = scene.judged();
  CHECK(verdict.node == 1);
  CHECK(verdict.host == "host1");
  CHECK(verdict.phase == "backward");
  CHECK(verdict.last_step == 8);
  CHECK(verdict.waiting == std::vector<std::pair<int, int>>{{0, 3}, {1, 3}, {2, 3}});
}

TEST_CASE("verdict: a frozen worker that SIGKILL does not end", "[diagnosis]") {
  Scene scene(4);
  scene.rank(2).process_state = "D";
  scene.rank(2).wait_channel = "frozen_cgroup";
  scene.evidence.unkillable = {2};
  expect(scene,
         FailureKind::kStopped,
         {2},
         "Rank 2 on node 1 (host1) is frozen (process state D), in backward of step 9. Rank 2 on node 1 "
         "(host1) did "
         "not die of SIGKILL: the kernel holds it (a driver, a dead file system, a frozen cgroup), and the "
         "node needs "
         "attention. Something sent it SIGSTOP, a debugger holds it, or its cgroup is frozen.");
}

TEST_CASE("verdict: a limit that a worker speaks of is the cause, though it says that it lost a peer",
          "[diagnosis]") {
  Scene scene(4);
  scene.rank(2).phase = scene.rank(3).phase = "starting";
  scene.exited(2, 80, 0).exited(3, 80, 1).killed(0).killed(1);
  scene.evidence.reports = {
      {2, "cannot connect; did not arrive: rank 1"},
      {3, "Resource temporarily unavailable\nllmtrain: a limit was reached: 9 (pids.max)\nmore"}};
  expect(scene,
         FailureKind::kExit,
         {3},
         "Rank 3 on node 1 (host1) ran into a limit, while starting: 9 (pids.max).",
         Confidence::kMedium);
  scene.evidence.start_failure = "node 1 (host1): cannot fork";
  expect(scene, FailureKind::kUnknown, {}, "Workers could not be started on node 1 (host1): cannot fork.");
}

TEST_CASE("verdict: ends of one rank", "[diagnosis]") {
  SECTION("an exit with a code of its own") {
    Scene scene(2);
    scene.exited(1, 7).exited(0, 80, 1);
    expect(scene,
           FailureKind::kExit,
           {1},
           "Rank 1 on node 0 (host0) ended by itself: exit 7, in backward of step 9.");
  }
  SECTION("an exception inside a collective") {
    Scene scene(2);
    scene.in(1, call("reduce_scatter", 3, "dp")).exited(1, 70).killed(0);
    expect(scene,
           FailureKind::kExit,
           {1},
           "Rank 1 on node 0 (host0) ended by itself: exit 70: internal error, while "
           "reducing gradients of step 9, inside reduce_scatter 3 of dp (1024 bytes).");
  }
  SECTION("a crash while starting, nothing in its box") {
    Scene scene(2);
    scene.rank(0).phase = "starting";
    scene.rank(0).step = 0;
    scene.signaled(0, 11);
    expect(scene,
           FailureKind::kSignal,
           {0},
           "Rank 0 on node 0 (host0) ended by itself: signal 11 (SIGSEGV), while starting.");
  }
  SECTION("killed while saving") {
    Scene scene(2);
    scene.rank(1).phase = "saving a checkpoint";
    scene.signaled(1, 9);
    expect(scene,
           FailureKind::kSignal,
           {1},
           "Rank 1 on node 0 (host0) ended by itself: signal 9 (SIGKILL), while saving a "
           "checkpoint after step 8.");
  }
  SECTION("out of memory: a kill, and the counter of its cgroup") {
    Scene scene(4);
    scene.signaled(2, 9).evidence.oom_kills = {{0, {}}, {1, {1, {512 << 20, "/slurm/job_7"}}}};
    expect(scene,
           FailureKind::kOutOfMemory,
           {2},
           "Rank 2 on node 1 (host1) ended by itself: signal 9 (SIGKILL), in backward of "
           "step 9. The kernel killed for lack of memory there: its cgroup /slurm/job_7 allows 512 MiB. "
           "Raise the memory limit of the job, or lower batch.micro_batch_size or set memory.recompute.");
    scene.evidence.oom_kills[1].limit = {};
    CHECK(scene.judged().paragraph.find("no cgroup of it has a limit, so the host itself had no more") !=
          std::string::npos);
  }
  SECTION("out of memory on another node is not its cause") {
    Scene scene(4);
    scene.signaled(2, 9).evidence.oom_kills = {{0, {1, {}}}, {1, {}}};
    expect(scene,
           FailureKind::kSignal,
           {2},
           "Rank 2 on node 1 (host1) ended by itself: signal 9 (SIGKILL), in backward of "
           "step 9.");
  }
  SECTION("the third crash at one step") {
    Scene scene(2);
    scene.exited(1, 70).evidence.crashes_at_step = 3;
    scene.evidence.before = {{0, 1}, "backward", "exit 70: internal error"};
    expect(
        scene,
        FailureKind::kDeterministicCrash,
        {1},
        "Rank 1 on node 0 (host0) ended by itself: exit 70: internal error, in backward "
        "of step 9. It is failure 3 in a row at this step, and the one before was the same. A restart will "
        "not help: the same step fails each time; look at its data and its numbers.");
  }
  SECTION("a crash after that of another rank, somewhere else, or in another way, may be chance") {
    for (const FailurePlace& before : {FailurePlace{{0}, "backward", "exit 70: internal error"},
                                       FailurePlace{{1}, "starting", "exit 70: internal error"},
                                       FailurePlace{{1}, "backward", "signal 11 (SIGSEGV)"},
                                       FailurePlace{{0, 1}, "backward", ""}}) {
      Scene scene(2);
      scene.exited(1, 70).evidence.crashes_at_step = 2;
      scene.evidence.before = before;
      CHECK(judge(scene.evidence).kind == FailureKind::kExit);
    }
  }
}

TEST_CASE("verdict: several ends", "[diagnosis]") {
  SECTION("two workers killed in one stroke") {
    Scene scene(4);
    scene.signaled(0, 9, 0).signaled(1, 9, 3).exited(2, 80, 1).exited(3, 80, 1);
    expect(scene,
           FailureKind::kSignal,
           {0, 1},
           "Ranks 0, 1 on node 0 (host0) ended by themselves: signal 9 (SIGKILL), in backward of"
           " step 9.");
  }
  SECTION("what comes long after the first on one node is its consequence") {
    Scene scene(2);
    scene.signaled(0, 11, 0).signaled(1, 6, 900);
    expect(scene,
           FailureKind::kSignal,
           {0},
           "Rank 0 on node 0 (host0) ended by itself: signal 11 (SIGSEGV), in backward of "
           "step 9.");
  }
  SECTION("over nodes no clock counts: who waited for the other one is not the cause") {
    Scene scene(4);
    scene.in(0, call("all_reduce", 9, "world")).past(3, call("all_reduce", 8, "world"), "optimizer");
    scene.exited(0, 70, 0).exited(3, 73, 4000);  // 4 s on its own node's clock
    expect(scene,
           FailureKind::kExit,
           {3},
           "Rank 3 on node 1 (host1) ended by itself: exit 73: data error, in optimizer of "
           "step 9; its last call was all_reduce 8 of world (1024 bytes). Rank 0 waits for "
           "it in all_reduce 9 of world (1024 bytes).");
  }
  SECTION("an exit beside a signal is an answer to it") {
    Scene scene(4);
    scene.exited(0, 70, 0).signaled(3, 7, 100);
    expect(scene,
           FailureKind::kSignal,
           {3},
           "Rank 3 on node 1 (host1) ended by itself: signal 7 (SIGBUS), in backward of step"
           " 9.");
  }
  SECTION("all ranks end alike") {
    Scene scene(4);
    for (int rank = 0; rank < 4; ++rank) scene.exited(rank, 71, rank);
    expect(scene,
           FailureKind::kExit,
           {0, 1, 2, 3},
           "Ranks 0-3 on nodes 0 (host0), 1 (host1) ended by themselves: exit 71: diverged, in "
           "backward of step 9.");
  }
}

TEST_CASE("verdict: a stopped process is the culprit whatever else", "[diagnosis]") {
  Scene scene(4);
  for (const int rank : {0, 2, 3}) scene.in(rank, call("all_reduce", 17, "dp", 4096));
  scene.past(1, call("all_reduce", 16, "dp"), "forward").rank(1).process_state = "T";
  SECTION("others wait") {
    expect(scene,
           FailureKind::kStopped,
           {1},
           "Rank 1 on node 0 (host0) is stopped (process state T), in forward of step 9; its"
           " last call was all_reduce 16 of dp (1024 bytes). Ranks 0, 2, 3 wait for it in "
           "all_reduce 17 of dp (4096 bytes). Something sent it SIGSTOP, a debugger holds "
           "it, or its cgroup is frozen.");
  }
  SECTION("others have given up") {
    scene.exited(0, 80).exited(2, 80).exited(3, 70);
    expect(scene,
           FailureKind::kStopped,
           {1},
           "Rank 1 on node 0 (host0) is stopped (process state T), in forward of step 9; its"
           " last call was all_reduce 16 of dp (1024 bytes). Ranks 0, 2, 3 wait for it in "
           "all_reduce 17 of dp (4096 bytes). Something sent it SIGSTOP, a debugger holds "
           "it, or its cgroup is frozen.");
  }
  SECTION("inside a collective that nobody leaves") {
    Scene inside(2);
    inside.in(0, call("barrier", 4, "world", 0)).in(1, call("barrier", 4, "world", 0));
    inside.rank(0).process_state = "T";
    expect(inside,
           FailureKind::kStopped,
           {0},
           "Rank 0 on node 0 (host0) is stopped (process state T), while reducing gradients "
           "of step 9, inside barrier 4 of world (0 bytes). Something sent it SIGSTOP, a "
           "debugger holds it, or its cgroup is frozen.");
  }
}

TEST_CASE("verdict: nodes that are lost", "[diagnosis]") {
  Scene scene(4);
  scene.in(0, call("all_reduce", 17, "dp")).in(1, call("all_reduce", 17, "dp")).exited(0, 80).exited(1, 80);
  SECTION("gone") {
    scene.evidence.lost_nodes = {{.node = 1, .reason = "connection closed"}};
    expect(scene,
           FailureKind::kNodeLost,
           {2, 3},
           "Node 1 (host1) is lost: connection closed; its agent or host is gone, or the "
           "link to it is cut. With it went ranks 2, 3, in backward of step 9. Ranks 0, 1 "
           "wait for them in all_reduce 17 of dp (1024 bytes).");
    CHECK(scene.judged().node == 1);
  }
  SECTION("its agent is stopped") {
    scene.evidence.lost_nodes = {{.node = 1, .reason = "silent for 4.1 s", .link_acks = true}};
    expect(scene,
           FailureKind::kNodeLost,
           {2, 3},
           "Node 1 (host1) is lost: silent for 4.1 s; its kernel still answers, so its agent"
           " is stopped or stuck. With it went ranks 2, 3, in backward of step 9. Ranks 0, 1"
           " wait for them in all_reduce 17 of dp (1024 bytes).");
  }
  SECTION("nothing was ever known of its ranks") {
    Scene bare(2);
    bare.evidence.lost_nodes = {{.node = 7, .reason = "connection closed"}};
    expect(bare,
           FailureKind::kNodeLost,
           {},
           "Node 7 is lost: connection closed; its agent or host is gone, or the link to it "
           "is cut.");
  }
}

TEST_CASE("verdict: hangs are named by who does not wait", "[diagnosis]") {
  Scene scene(4);
  for (const int rank : {0, 1, 3}) scene.in(rank, call("all_reduce", 17, "dp"));
  SECTION("in compute") {
    scene.past(2, call("all_reduce", 16, "dp"), "backward").rank(2).stack = {"0 libm.so.6+0x1f exp",
                                                                             "1 x+0x2 f"};
    expect(scene,
           FailureKind::kHangCompute,
           {2},
           "Rank 2 on node 1 (host1) makes no progress, in backward of step 9; its last call"
           " was all_reduce 16 of dp (1024 bytes). Ranks 0, 1, 3 wait for it in all_reduce "
           "17 of dp (1024 bytes). Its innermost frame: 0 libm.so.6+0x1f exp.");
  }
  SECTION("in the kernel, with its wait channel") {
    scene.past(2, call("all_reduce", 16, "dp"), "saving a checkpoint");
    scene.rank(2).process_state = "D";
    scene.rank(2).wait_channel = "nfs_wait_on_request";
    expect(scene,
           FailureKind::kHangCompute,
           {2},
           "Rank 2 on node 1 (host1) makes no progress, while saving a checkpoint after step"
           " 8; its last call was all_reduce 16 of dp (1024 bytes) (process state D, kernel "
           "wait channel nfs_wait_on_request). Ranks 0, 1, 3 wait for it in all_reduce 17 of"
           " dp (1024 bytes).");
  }
  SECTION("in input") {
    scene.past(2, call("all_reduce", 16, "dp"), "waiting for data");
    expect(scene,
           FailureKind::kHangInput,
           {2},
           "Rank 2 on node 1 (host1) gets no data, while waiting for data of step 9; its "
           "last call was all_reduce 16 of dp (1024 bytes). Ranks 0, 1, 3 wait for it in "
           "all_reduce 17 of dp (1024 bytes). Look at the storage that holds data.train.");
  }
  SECTION("a call that is under way while it computes does not hide it") {
    scene.in(2, call("all_reduce", 16, "dp"), "backward").rank(2).waiting.reset();
    expect(scene,
           FailureKind::kHangCompute,
           {2},
           "Rank 2 on node 1 (host1) makes no progress, in backward of step 9. Ranks 0, 1, 3"
           " wait for it in all_reduce 17 of dp (1024 bytes).");
  }
  SECTION("two of them: the one past its deadline") {
    scene.rank(3) = scene.rank(2);
    scene.rank(3).rank = 3;
    scene.evidence.overdue = {3, 0};
    expect(scene,
           FailureKind::kHangCompute,
           {3},
           "Rank 3 on node 1 (host1) makes no progress, in backward of step 9. Ranks 0, 1 "
           "wait for it in all_reduce 17 of dp (1024 bytes).");
  }
  SECTION("two of them: the one that stands still for longest") {
    scene.rank(3) = scene.rank(2);
    scene.rank(3).rank = 3;
    scene.rank(3).heartbeat_age_s = 2;
    expect(scene,
           FailureKind::kHangCompute,
           {2},
           "Rank 2 on node 1 (host1) makes no progress, in backward of step 9. Ranks 0, 1 "
           "wait for it in all_reduce 17 of dp (1024 bytes).");
  }
}

TEST_CASE("verdict: waiting goes through other groups", "[diagnosis]") {
  // tp groups {0, 1} and {2, 3}, dp groups {0, 2} and {1, 3}: 3 computes, 2 waits for it in tp, 0 for 2 in
  // dp.
  Scene scene(4);
  scene.evidence.groups = {{"tp", {0, 1}}, {"tp", {2, 3}}, {"dp", {0, 2}}, {"dp", {1, 3}}};
  scene.in(0, call("all_reduce", 5, "dp")).past(2, call("all_reduce", 4, "dp"), "backward");
  scene.in(2, call("all_reduce", 40, "tp"), "backward").past(3, call("all_reduce", 39, "tp"), "backward");
  scene.past(1, call("all_reduce", 40, "tp"), "reducing gradients").in(1, call("all_reduce", 5, "dp"));
  expect(scene,
         FailureKind::kHangCompute,
         {3},
         "Rank 3 on node 1 (host1) makes no progress, in backward of step 9; its last call"
         " was all_reduce 39 of tp (1024 bytes). Ranks 1, 2 wait for it in all_reduce 40 "
         "of tp (1024 bytes) and 1 other call.");
  const FailureVerdict verdict = scene.judged();
  CHECK(verdict.waiting == std::vector<std::pair<int, int>>{{0, 2}, {1, 3}, {2, 3}});
}

TEST_CASE("verdict: a pipeline waits for the stage that is in no message", "[diagnosis]") {
  Scene scene(4);
  for (const int rank : {1, 2, 3}) scene.in(rank, call("recv", 9, "pp", 0), "waiting for a pipeline stage");
  scene.rank(0).phase = "forward";
  expect(scene,
         FailureKind::kHangCompute,
         {0},
         "Rank 0 on node 0 (host0) makes no progress, in forward of step 9. Ranks 1-3 wait"
         " for it in recv 9 of pp (0 bytes).");
}

TEST_CASE("verdict: calls that differ", "[diagnosis]") {
  SECTION("a rank that skipped a call waits elsewhere") {
    Scene scene(4);
    for (const int rank : {0, 2, 3}) scene.in(rank, call("all_reduce", 7, "dp"));
    scene.past(1, call("all_reduce", 6, "dp"), "optimizer").in(1, call("all_reduce", 3, "world", 24));
    for (const int rank : {0, 2, 3})
      scene.rank(rank).groups.push_back(call("all_reduce", 2, "world", 24, true));
    expect(scene,
           FailureKind::kMissingCall,
           {1},
           "Rank 1 on node 0 (host0) went on without a call that the others make: rank 1 on "
           "node 0 (host0) in all_reduce 3 of world (24 bytes), ranks 0, 2, 3 on nodes 0 "
           "(host0), 1 (host1) in all_reduce 7 of dp (1024 bytes). Ranks 0, 2, 3 wait for it"
           " in all_reduce 7 of dp (1024 bytes). Ranks must make the same calls in the same "
           "order: monitoring.check_collectives compares them.",
           Confidence::kMedium);
  }
  SECTION("of two ranks that wait for each other, the groups beside theirs tell which one left a call out") {
    for (const int culprit : {2, 3}) {
      const std::uint64_t made = culprit == 2 ? 40 : 41;  // by the pair that did nothing wrong
      Scene scene(4);
      scene.evidence.groups = {{"world", {0, 1, 2, 3}}, {"tp", {0, 1}}, {"tp", {2, 3}}};
      for (const int rank : {0, 1}) scene.past(rank, call("all_reduce", made, "tp", 8), "backward");
      scene.past(3, call("all_reduce", 40, "tp", 8), "backward");
      scene.past(2, call("all_reduce", 11, "world", 24), "backward");
      for (const int rank : {0, 1, 3}) scene.in(rank, call("all_reduce", 12, "world", 24));
      scene.in(2, call("all_reduce", 41, "tp", 8), "optimizer");
      const FailureVerdict verdict = scene.judged();
      INFO(verdict.paragraph);
      CHECK(verdict.kind == FailureKind::kMissingCall);
      CHECK(verdict.culprits == std::vector<int>{culprit});
      REQUIRE(verdict.collective.has_value());
      CHECK(verdict.collective->group == (culprit == 2 ? "world" : "tp"));
      CHECK(verdict.paragraph.find("all_reduce 12 of world") != std::string::npos);
      CHECK(verdict.paragraph.find("all_reduce 41 of tp") != std::string::npos);
    }
  }
  SECTION("two ranks in two groups: a deadlock by order names both") {
    Scene scene(2);
    scene.in(0, call("all_reduce", 7, "dp")).in(1, call("all_gather", 5, "tp"));
    expect(scene,
           FailureKind::kHangCollective,
           {0, 1},
           "Deadlock by order, ranks wait for each other: rank 1 on node 0 (host0) in "
           "all_gather 5 of tp (1024 bytes), rank 0 on node 0 (host0) in all_reduce 7 of dp "
           "(1024 bytes).",
           Confidence::kMedium);
  }
  SECTION("one that finished while others wait for its next call") {
    Scene scene(2);
    scene.in(0, call("all_reduce", 7, "dp")).past(1, call("all_reduce", 6, "dp"), "finished").exited(1, 0);
    expect(scene,
           FailureKind::kMissingCall,
           {1},
           "Rank 1 on node 0 (host0) left although others still wait for a call of it. Rank "
           "0 waits for it in all_reduce 7 of dp (1024 bytes). Ranks must make the same "
           "calls in the same order: monitoring.check_collectives compares them.");
  }
  SECTION("the boxes show another operation under the same number") {
    Scene scene(4);
    for (const int rank : {0, 1, 2}) scene.in(rank, call("all_reduce", 7, "dp"));
    scene.in(3, call("all_gather", 7, "dp"));
    expect(scene,
           FailureKind::kMismatchedCall,
           {3},
           "Rank 3 on node 1 (host1) made another call than the others as number 7 of dp: "
           "rank 0 all_reduce of 1024 bytes, rank 1 all_reduce of 1024 bytes, rank 2 "
           "all_reduce of 1024 bytes, rank 3 all_gather of 1024 bytes. Ranks must make the "
           "same calls in the same order: monitoring.check_collectives compares them.",
           Confidence::kMedium);
  }
  SECTION("two ranks, other sizes: neither can be preferred") {
    Scene scene(2);
    scene.in(0, call("all_reduce", 7, "dp", 1024)).in(1, call("all_reduce", 7, "dp", 2048));
    expect(scene,
           FailureKind::kMismatchedCall,
           {0, 1},
           "Ranks 0, 1 on node 0 (host0) made different calls as number 7 of dp: rank 0 "
           "all_reduce of 1024 bytes, rank 1 all_reduce of 2048 bytes. Ranks must make the "
           "same calls in the same order: monitoring.check_collectives compares them. This "
           "is a guess: the evidence is thin.",
           Confidence::kLow);
  }
  SECTION("check_collectives has said it") {
    Scene scene(3);
    scene.says(
        0,
        "ranks of group dp disagree in call #5: rank 0 calls all_reduce of float32 [4] sum, rank 2 calls "
        "all_gather of float32 [4]");
    scene.says(
        1,
        "ranks of group dp disagree in call #5: rank 1 calls all_reduce of float32 [4] sum, rank 2 calls "
        "all_gather of float32 [4]");
    scene.exited(0, 80).exited(1, 80).exited(2, 80);
    expect(scene,
           FailureKind::kMismatchedCall,
           {2},
           "Rank 2 on node 1 (host1) made another call than the others: ranks of group dp "
           "disagree in call #5: rank 0 calls all_reduce of float32 [4] sum, rank 2 calls "
           "all_gather of float32 [4]. Ranks must make the same calls in the same order: "
           "monitoring.check_collectives compares them.");
  }
  SECTION("a message of the wrong shape") {
    Scene scene(2);
    scene.says(1,
               "message #3 of group pp: rank 0 sends float32 [2, 4] to rank 1, which expects float32 [4, 4]");
    expect(scene,
           FailureKind::kMismatchedCall,
           {0, 1},
           "Ranks 0, 1 on node 0 (host0) made different calls: message #3 of group pp: rank "
           "0 sends float32 [2, 4] to rank 1, which expects float32 [4, 4]. Ranks must make "
           "the same calls in the same order: monitoring.check_collectives compares them.",
           Confidence::kMedium);
  }
}

TEST_CASE("verdict: all have arrived and nobody comes out", "[diagnosis]") {
  Scene scene(4);
  for (int rank = 0; rank < 4; ++rank) scene.in(rank, call("all_reduce", 17, "dp", 4096));
  SECTION("over nodes it is the transport") {
    expect(scene,
           FailureKind::kTransport,
           {0, 1, 2, 3},
           "All have begun all_reduce 17 of dp (4096 bytes) and nobody comes out of it: "
           "bytes between nodes do not arrive. Concerned: ranks 0-3 on nodes 0 (host0), 1 "
           "(host1). Look at the network between them: links, firewalls, the interface.",
           Confidence::kMedium);
  }
  SECTION("two that do not hear each other are named") {
    scene.says(1, "all_reduce of group dp timed out; did not arrive: rank 2");
    scene.says(2, "all_reduce of group dp timed out; did not arrive: ranks 1, 0");
    scene.exited(1, 80).exited(2, 80);
    expect(scene,
           FailureKind::kTransport,
           {1, 2},
           "All have begun all_reduce 17 of dp (4096 bytes) and nobody comes out of it: "
           "bytes between nodes do not arrive. Ranks 1, 2 on nodes 0 (host0), 1 (host1) do "
           "not hear each other. Look at the network between them: links, firewalls, the "
           "interface.");
  }
  SECTION("inside one node it is the collective") {
    for (RankNote& note : scene.evidence.ranks) note.node = 0;
    expect(scene,
           FailureKind::kHangCollective,
           {0, 1, 2, 3},
           "All have begun all_reduce 17 of dp (4096 bytes) and nobody comes out of it. "
           "Concerned: ranks 0-3 on node 0 (host0).",
           Confidence::kMedium);
  }
}

TEST_CASE("verdict: thin evidence", "[diagnosis]") {
  SECTION("a single rank past its deadline") {
    Scene scene(1);
    scene.evidence.overdue = {0};
    expect(scene,
           FailureKind::kHangCompute,
           {0},
           "Rank 0 on node 0 (host0) makes no progress, in backward of step 9.",
           Confidence::kMedium);
  }
  SECTION("a rank without data, alone") {
    Scene scene(1);
    scene.rank(0).phase = "waiting for data";
    scene.evidence.overdue = {0};
    expect(scene,
           FailureKind::kHangInput,
           {0},
           "Rank 0 on node 0 (host0) gets no data, while waiting for data of step 9. Look at"
           " the storage that holds data.train.",
           Confidence::kMedium);
  }
  SECTION("no black box tells, but the workers name who is missing") {
    Scene scene(4);
    scene.says(0, "barrier of group world timed out; did not arrive: ranks 2, 3");
    scene.says(1, "barrier of group world timed out; did not arrive: rank 3");
    expect(scene,
           FailureKind::kHangCompute,
           {3},
           "Rank 3 on node 1 (host1) did not arrive where ranks 0, 1 waited, in backward of "
           "step 9. This is a guess: the evidence is thin.",
           Confidence::kLow);
  }
  SECTION("nothing at all") {
    expect(Scene(2),
           FailureKind::kUnknown,
           {},
           "No rank failed by itself, and neither the black boxes nor the workers' messages "
           "name one.",
           Confidence::kLow);
    CHECK(judge({}).kind == FailureKind::kUnknown);
  }
  SECTION("only lost peers") {
    Scene scene(2);
    scene.exited(0, 80).exited(1, 80);
    expect(scene,
           FailureKind::kUnknown,
           {},
           "No rank failed by itself, and neither the black boxes nor the workers' messages "
           "name one.",
           Confidence::kLow);
  }
}

TEST_CASE("verdict: a large world stays readable", "[diagnosis]") {
  Scene scene(1000, 8);
  for (int rank = 0; rank < 1000; ++rank)
    if (rank != 500) scene.in(rank, call("all_reduce", 17, "world"));
  expect(scene,
         FailureKind::kHangCompute,
         {500},
         "Rank 500 on node 62 (host62) makes no progress, in backward of step 9. Ranks "
         "0-499, 501-999 wait for it in all_reduce 17 of world (1024 bytes).");
  CHECK(scene.judged().waiting.size() == 64);
}

TEST_CASE("verdict: an incident takes it over", "[diagnosis]") {
  Scene scene(4);
  scene.in(0, call("all_reduce", 17, "dp")).past(3, call("all_reduce", 16, "dp"), "backward").signaled(3, 9);
  Incident incident;
  record(scene.judged(), incident);
  incident.events.push_back({.at_ms = 3, .text = "2 workers killed"});
  const auto json = nlohmann::json::parse(to_json(incident));
  CHECK(json["kind"] == "signal");
  CHECK(json["confidence"] == "high");
  CHECK(json["first_cause"] == nlohmann::json({3}));
  CHECK(json["node"] == 1);
  CHECK(json["host"] == "host1");
  CHECK(json["verdict"] == scene.judged().paragraph);
  CHECK(json["waiting_for"] == nlohmann::json::parse("[[0, 1], [0, 2], [0, 3]]"));
  CHECK(json["events"][0]["text"] == "2 workers killed");
  for (const char* key : {"detect_ms", "rendezvous_ms", "load_ms", "first_step_ms"})
    CHECK(json[key].is_null());
}

TEST_CASE("verdict: words come back as what they were", "[diagnosis]") {
  for (int i = 0; i <= static_cast<int>(FailureKind::kUnknown); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    CHECK(failure_kind(to_string(kind)) == kind);
  }
  CHECK_FALSE(failure_kind("hang").has_value());
}

TEST_CASE("worker reports: texts from outside are read with bounds", "[diagnosis]") {
  CHECK(missing_ranks("x; did not arrive: rank 3") == std::set<int>{3});
  CHECK(missing_ranks("x; did not arrive: ranks 1, 12, 3; more 9") == std::set<int>{1, 3, 12});
  CHECK(missing_ranks("did not arrive: rank 99999999999999999999").size() == 1);
  CHECK(missing_ranks("did not arrive: rank").empty());
  CHECK(missing_ranks("").empty());
  CHECK_FALSE(find_disagreement({{0, std::string(1 << 20, 'a')}}).has_value());
  CHECK(minority({{0, "a"}, {1, "a"}, {2, "b"}}) == std::vector<int>{2});
  CHECK(minority({{0, "a"}, {1, "b"}}) == std::vector<int>{0, 1});
  CHECK(minority({}).empty());
}
