"""A run of configs/cpu8_*.yaml that was stopped, or lost a rank to SIGKILL, ends as if nothing had been.

One process reads the checkpoints of every layout.
"""

import json
import signal
import unittest

from tests.e2e.harness import LONG, ROOT, E2eTest
from tests.support import main

CONFIGS = sorted((ROOT / "configs").glob("cpu8_*.yaml"))
STEPS = 8
SHORT = (f"train={{duration: {STEPS} steps, eval_interval: 0}}", "checkpoint.interval=3 steps", "lr_schedule.warmup=1 steps")


class Cpu8Recovery(E2eTest):
    def test_stop_and_kill_leave_no_trace(self):
        for place, config in enumerate(CONFIGS):
            undisturbed, _ = self.launch(f"{config.stem}-undisturbed", *SHORT, config=config)
            self.check_stop(config, undisturbed)
            for rank in range(8) if LONG else [(3 * place + 1) % 8]:
                self.check_kill(config, undisturbed, rank)

    def check_stop(self, config, undisturbed):
        with self.subTest(config.stem, stop=True):
            running, run = self.start_launch(f"{config.stem}-stopped", *SHORT, "faults=[{kind: sleep, ms: 500, step: 5}]",
                                             config=config)
            self.wait_for_step(run, 4, running)
            running.signal(signal.SIGTERM)
            result = running.finish()
            self.assertEqual(result.code, 75, str(result))
            self.assertLess(run.last_step(), STEPS)
            self.resume(run)
            self.assert_identical(run, undisturbed)
            self.assertEqual(run.losses(), undisturbed.losses())

    def check_kill(self, config, undisturbed, rank):
        with self.subTest(config.stem, kill=rank):
            run, _ = self.launch(f"{config.stem}-killed-{rank}", *SHORT,
                                 f"faults=[{{kind: kill, rank: {rank}, step: 5, point: backward}}]", config=config)
            self.assertEqual(len(run.events("restart")), 1)
            self.assert_identical(run, undisturbed)

    def test_one_process_scores_and_samples_from_any_layout(self):
        text = self.folder / "text.txt"
        text.write_text("It was the best of times, it was the worst of times. " * 20)
        scores, texts = {}, {}
        for config in [ROOT / "configs/cpu1.yaml", *CONFIGS]:
            run, _ = self.launch(f"{config.stem}-short", *SHORT, config=config)
            score = self.expect(0, "eval", "--checkpoint", run.path, "--data", text, "--tokenizer", "bytes", "--json")
            scores[config.stem] = json.loads(score.out)["loss"]
            sample = self.expect(0, "generate", "--checkpoint", run.path, "--tokenizer", "bytes", "--prompt", "It was",
                                 "--max-tokens", 8, "--temperature", 0, "--json")
            self.assertEqual(json.loads(sample.out).get("text"), texts.setdefault("cpu1", json.loads(sample.out).get("text")))
        for name, score in scores.items():
            self.assertAlmostEqual(score / scores["cpu1"], 1, delta=1e-4, msg=name)


if __name__ == "__main__":
    main.run()
