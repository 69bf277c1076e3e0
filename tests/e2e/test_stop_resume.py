"""A run that is stopped, at any step and by any of its signals, ends as if it had never been."""

import os
import signal
import unittest

from tests.e2e.harness import LONG, E2eTest, wait_until
from tests.support import main

SLOW = "faults=[{kind: sleep, ms: 100, each: step}]"


class StopAndResume(E2eTest):
    def stop(self, name, step, number=signal.SIGTERM, *overrides):
        """Launch, send the signal once `step` is done, expect exit 75 and a verified checkpoint."""
        running, run = self.start_launch(name, *(overrides or (SLOW,)))
        self.wait_for_step(run, step, running)
        running.signal(number)
        result = running.finish()
        self.assertEqual(result.code, 75, str(result))
        self.assert_verified(run)
        self.assertEqual(run.checkpoint_steps()[-1], run.last_step())  # nothing is lost
        self.assertLess(run.last_step(), 20, "it was too fast to be stopped")
        return run

    def test_term_then_resume_equals_the_undisturbed_run(self):
        undisturbed, _ = self.launch("undisturbed")
        run = self.stop("stopped", 7)
        stopped_at = run.last_step()

        self.resume(run)

        self.assert_identical(run, undisturbed)
        self.assertEqual(run.losses(), undisturbed.losses())
        rows = run.metrics()
        self.assertEqual([row["step"] for row in rows], list(range(1, 21)), "no step twice, none left out")
        self.assertEqual({row["incarnation"] for row in rows if row["step"] > stopped_at}, {1})
        self.assertTrue((run.path / "spec-1.yaml").exists())
        self.assertTrue((run.path / "logs/1/node0/rank0.err").exists())

    def test_int_and_usr1_stop_too(self):
        for number in (signal.SIGINT, signal.SIGUSR1):
            with self.subTest(signal=number):
                run = self.stop(f"stopped-{number}", 3, number)
                self.resume(run)
                self.assertEqual(run.last_step(), 20)

    def test_a_signal_to_one_rank_stops_all_after_one_step(self):
        layout = ("parallelism.dp=2", "parallelism.pp=2")
        undisturbed, _ = self.launch("undisturbed", *layout)
        running, run = self.start_launch("stopped", SLOW, *layout)
        self.wait_for_step(run, 3, running)
        os.kill(running.workers()[1], signal.SIGTERM)
        self.assertEqual(running.finish().code, 75)
        self.assertEqual(run.checkpoint_steps()[-1], run.last_step())
        self.assertEqual(run.events("worker_exited"), [])
        running = self.start("resume", run.path, *self.sets("faults=[{kind: sleep, ms: 100, each: step, incarnation: -1}]"))
        self.wait_for_step(run, run.last_step() + 3, running)
        running.signal(signal.SIGUSR1)
        self.assertEqual(running.finish().code, 75)
        self.resume(run)
        self.assert_identical(run, undisturbed)
        self.assertEqual([row["step"] for row in run.metrics()], list(range(1, 21)))

    def test_launch_again_continues(self):
        undisturbed, _ = self.launch("undisturbed")
        run = self.stop("stopped", 4)
        self.launch("stopped")  # the same command as before, without the fault
        self.assert_identical(run, undisturbed)

    def test_a_second_term_stops_at_once(self):
        slow = "faults=[{kind: sleep, ms: 20000, step: 4, rank: 0}]"
        running, run = self.start_launch("run", slow)
        self.wait_for_step(run, 3, running)
        running.signal(signal.SIGTERM)
        wait_until(lambda: running.process.poll() is not None or run.events("stop_requested"), "the stop is noted")
        running.signal(signal.SIGTERM)
        result = running.finish(15)
        self.assertEqual(result.code, 76, str(result))
        self.assert_verified(run)  # of what was there before
        self.resume(run)
        self.assertEqual(run.last_step(), 20)

    def test_at_every_step(self):
        """A sleep holds step k while the signal arrives, so every boundary gets its stop."""
        short = "train.duration=20 steps" if LONG else "train.duration=8 steps"
        steps = 20 if LONG else 8
        undisturbed, _ = self.launch("undisturbed", short)
        for step in range(1, steps):
            with self.subTest(step=step):
                fault = f"faults=[{{kind: sleep, ms: 400, step: {step}}}]"
                running, run = self.start_launch(f"stop-{step}", short, fault)
                if step > 1:
                    self.wait_for_step(run, step - 1, running)
                else:
                    wait_until(lambda: run.events("run_started"), "start")
                running.signal(signal.SIGTERM)
                result = running.finish()
                self.assertEqual(result.code, 75, str(result))
                self.resume(run)
                self.assert_identical(run, undisturbed)
                self.assertEqual(run.losses(), undisturbed.losses())

    def test_stopped_again_and_again(self):
        undisturbed, _ = self.launch("undisturbed")
        run = self.stop("run", 2, signal.SIGTERM, "faults=[{kind: sleep, ms: 100, each: step, incarnation: -1}]")
        for step in (6, 11):
            running = self.start("resume", run.path)
            self.wait_for_step(run, step, running)
            running.signal(signal.SIGTERM)
            self.assertEqual(running.finish().code, 75)
        self.resume(run)
        self.assert_identical(run, undisturbed)


if __name__ == "__main__":
    main.run()
