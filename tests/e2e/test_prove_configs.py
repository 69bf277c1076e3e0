"""Every config of several dimensions computes what one rank computes, and a bug that is planted in it is found."""

import json
import unittest

from tests.e2e.harness import LONG, ROOT, E2eTest
from tests.support import main

CPU8 = sorted((ROOT / "configs").glob("cpu8_*.yaml"))
LARGE = sorted((ROOT / "configs").glob("*gpu*.yaml"))
ALL_AXES = ROOT / "configs/cpu8_tp2_pp2_dp2.yaml"
SECONDS = 300.0  # 64 ranks on two cores


class ProveConfigs(E2eTest):
    def certificate(self, config, *arguments, code=0):
        found = json.loads(self.expect(code, "prove", config, "--json", *arguments, seconds=SECONDS).out)
        self.assertEqual(found["ok"], code == 0)
        return found

    def plants(self):
        return [entry["name"] for entry in json.loads(self.expect(0, "prove", "--list-plants", "--json").out)]

    def test_each_is_one_rank(self):
        self.assertGreaterEqual(len(CPU8), 5)
        self.assertGreaterEqual(len(LARGE), 4)
        for config in CPU8 + LARGE:
            with self.subTest(config.stem):
                found = self.certificate(config)
                self.assertLess(max(found["max_rel_diff"].values()), 1e-9)
                self.assertLessEqual(found["ranks"], 64)
                if config in CPU8:
                    self.assertEqual((found["ranks"], found["shrunk_from"]), (8, None))
                self.check_axes(config, found["layout"])

    def check_axes(self, config, layout):
        """Axes shrink, and stay several where they were; what is shared in which way stays."""
        asked = json.loads(self.expect(0, "validate", "--json", config).out)["spec"]["parallelism"]
        for axis in ("tp", "pp", "sp", "dp"):
            self.assertLessEqual(layout[axis], asked[axis])
            self.assertEqual(layout[axis] > 1, asked[axis] > 1)
        for feature in ("tp_shard_sequence", "zero_stage", "schedule"):
            self.assertEqual(layout[feature], asked[feature])

    def test_every_planted_bug_is_found_on_all_axes_at_once(self):
        for plant in self.plants():
            with self.subTest(plant):
                found = self.certificate(ALL_AXES, "--plant", plant, code=1)
                self.assertEqual(found["plant"], plant)
                self.assertGreaterEqual(found["first_divergence"]["step"], 1)
                self.assertTrue(found["first_divergence"]["tensor"])

    def test_planted_bugs_are_found_on_large_jobs(self):
        plants = self.plants()
        for i, config in enumerate(LARGE):
            for plant in plants if LONG else plants[i::len(plants) // 2]:
                with self.subTest(config.stem, plant=plant):
                    self.certificate(config, "--plant", plant, code=1)


if __name__ == "__main__":
    main.run()
