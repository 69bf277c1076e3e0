"""Workers and agents that die: the run recovers or ends with the right code, and nothing outlives it."""

import json
import os
import random
import signal
import time
import unittest

from tests.e2e.harness import LONG, E2eTest, processes_with, state_of, wait_until
from tests.support import main

SLOW = "faults=[{kind: sleep, ms: 100, each: step}]"


class WorkerDies(E2eTest):
    def test_kill_9_of_a_worker_restarts_and_equals_the_undisturbed_run(self):
        undisturbed, _ = self.launch("undisturbed")
        running, run = self.start_launch("killed", SLOW)
        self.wait_for_step(run, 8, running)
        os.kill(running.workers()[1], signal.SIGKILL)
        result = running.finish()

        self.assertEqual(result.code, 0, str(result))
        self.assert_identical(run, undisturbed)
        self.assertEqual(run.losses(), undisturbed.losses())
        (exited,) = [e for e in run.events("worker_exited") if e["code"] == 137]
        self.assertEqual(exited["rank"], 1)
        self.assertIn("SIGKILL", exited["cause"])
        self.assertEqual(len(run.events("restart")), 1)
        (incident,) = sorted(run.path.glob("incidents/incident-*.json"))
        self.assertIn("SIGKILL", json.dumps(json.loads(incident.read_text())))

    def test_sigkill_of_each_rank_at_random_steps(self):
        """The seed is printed; LLMTRAIN_TEST_SEED replays it."""
        seed = int(os.environ.get("LLMTRAIN_TEST_SEED", time.time_ns() % 100000))
        print(f"LLMTRAIN_TEST_SEED={seed}", flush=True)
        rng = random.Random(seed)
        undisturbed, _ = self.launch("undisturbed")
        for trial in range(20 if LONG else 2):
            for rank in (0, 1):
                point = rng.choice(["step", "forward", "backward", "reduce", "optimizer", "save", "commit"])
                step = rng.randint(1, 20) if point not in ("save", "commit") else rng.choice([5, 10, 15, 20])
                fault = f"faults=[{{kind: kill, rank: {rank}, step: {step}, point: {point}}}]"
                with self.subTest(seed=seed, trial=trial, fault=fault):
                    run, _ = self.launch(f"run-{trial}-{rank}", fault)
                    self.assert_identical(run, undisturbed)
                    self.assertEqual(run.losses(), undisturbed.losses())

    def test_before_the_first_checkpoint_it_starts_again_from_step_0(self):
        options = ("checkpoint.interval=0 steps", "checkpoint.save_initial=false")
        undisturbed, _ = self.launch("undisturbed", *options)
        run, _ = self.launch("run", *options, "faults=[{kind: kill, rank: 0, step: 3}]")
        self.assert_identical(run, undisturbed)

    def test_the_restart_budget_ends_a_crash_loop(self):
        fault = "faults=[{kind: kill, rank: 1, step: 7, incarnation: -1}]"
        running, run = self.start_launch("run", fault, "resilience.max_restarts=2", "resilience.no_progress_limit=100")
        result = running.finish()
        self.assertEqual(result.code, 66, str(result))
        self.assertEqual(len(run.events("restart")), 2)
        self.assert_verified(run)

    def test_restarts_without_a_new_step_end_as_no_progress(self):
        fault = "faults=[{kind: kill, rank: 1, step: 7, incarnation: -1}]"
        running, run = self.start_launch("run", fault, "resilience.max_restarts=100", "resilience.no_progress_limit=3")
        result = running.finish()
        self.assertEqual(result.code, 67, str(result))
        self.assertLessEqual(len(run.events("restart")), 4)

    def test_a_failure_right_after_a_restart_is_told_of_the_step_it_happened_in(self):
        run, _ = self.launch("run", "faults=[{kind: kill, rank: 1, step: 7}, "
                                    "{kind: throw, rank: 0, point: forward, incarnation: 1}]")
        incidents = [json.loads(p.read_text()) for p in sorted(run.path.glob("incidents/incident-*.json"))]
        self.assertEqual(len(incidents), 2)
        self.assertRegex(incidents[1]["summary"], r"of step 6\b")  # the checkpoint is of step 5

    def test_a_save_that_fails_on_one_rank_leaves_nothing_and_the_next_one_works(self):
        undisturbed, _ = self.launch("undisturbed")
        run, _ = self.launch("run", "faults=[{kind: io, rank: 1, step: 10}]")
        self.assertEqual(run.checkpoint_steps(), [0, 5, 15, 20])
        self.assertEqual([path.name for path in (run.path / "checkpoints").glob(".*")], [])
        self.assertEqual(run.events("restart"), [])
        warnings = [e["text"] for e in run.events("note") if e["severity"] == "warning"]
        self.assertRegex(warnings[-1], "step 10 was not saved, training goes on.*No space left on device")
        self.assert_identical(run, undisturbed)

    def test_a_thrown_error_is_named_by_its_rank(self):
        running, run = self.start_launch("run", "faults=[{kind: throw, rank: 1, step: 3, incarnation: -1}]",
                                         "resilience.max_restarts=0")
        result = running.finish()
        self.assertNotEqual(result.code, 0)
        self.assertTrue([e for e in run.events("worker_exited") if e["rank"] == 1])


class AgentDies(E2eTest):
    def test_kill_9_of_the_agent_leaves_no_process(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 3, running)
        self.assertEqual(len(running.workers()), 2)
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        time.sleep(1.0)
        self.assertEqual(processes_with(self.mark), [])

        undisturbed, _ = self.launch("undisturbed")
        self.resume(run)  # the lock of the dead launch does not block
        self.assert_identical(run, undisturbed)

    def test_workers_that_are_stopped_die_with_the_agent_too(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 2, running)
        worker = running.workers()[0]
        os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: state_of(worker) == "T", "the worker is stopped")
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        time.sleep(1.0)
        self.assertEqual(processes_with(self.mark), [])

    def test_the_agent_maps_no_libtorch(self):
        running, run = self.start_launch("run", SLOW)
        self.wait_for_step(run, 2, running)
        with open(f"/proc/{running.pid}/maps") as maps:
            self.assertNotIn("torch", maps.read())
        with open(f"/proc/{running.pid}/status") as status:
            (resident,) = [line for line in status if line.startswith("VmRSS:")]
        self.assertLess(int(resident.split()[1]), 20 * 1024)
        self.assertTrue(all(name.startswith("llmtrain") for name in
                            (open(f"/proc/{pid}/comm").read() for pid in running.workers().values())))
        running.signal(signal.SIGTERM)
        self.assertEqual(running.finish().code, 75)


if __name__ == "__main__":
    main.run()
