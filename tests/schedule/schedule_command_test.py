"""`llmtrain schedule show` from the command line: numbers, drawings, files, and what it refuses."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

from tests.support.main import run


class ScheduleShow(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="llmtrain test ")  # a path with a space
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name)

    def show(self, code, *arguments):
        result = subprocess.run([os.environ["LLMTRAIN"], "schedule", "show", *map(str, arguments)],
                                capture_output=True, text=True, cwd=self.dir)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr if code == 0 else result.stdout, "")
        return result.stdout + result.stderr

    def json(self, *arguments):
        return json.loads(self.show(0, *arguments, "--json"))

    def test_1f1b_idles_three_elevenths(self):
        found = self.json("--schedule", "1f1b", "--pp", 4, "--micro-batches", 8)
        self.assertEqual(found["bubble_share"], 3 / 11)
        self.assertEqual(found["peak_in_flight"], [4, 3, 2, 1])
        self.assertEqual((found["makespan"], found["idle"], found["messages"]), (33, 36, 48))
        self.assertEqual((found["pp"], found["micro_batches"], found["virtual_stages"]), (4, 8, 1))
        text = self.show(0, "--schedule", "1f1b", "--pp", 4, "--micro-batches", 8)
        self.assertIn("bubble share    0.2727 (3/11)", text)
        self.assertIn("stage 3  .  .  .  F0 B0 -- F1 B1 --", text)
        self.assertIn("peak in flight  4 3 2 1\n", text)

    def test_zbv_chooses_its_two_virtual_stages(self):
        found = self.json("--schedule", "zbv", "--pp", 4, "--micro-batches", 8)
        self.assertEqual(found["bubble_share"], 3 / 51)
        self.assertEqual(found["peak_in_flight"], [8, 8, 8, 8])
        self.assertEqual([stage["virtual_stages"] for stage in found["stages"]], [[0, 7], [1, 6], [2, 5], [3, 4]])
        for stage in found["stages"]:
            self.assertEqual(sum(stage["peak_by_virtual_stage"]), 8)
            self.assertEqual(len(stage["actions"]), 8 * 2 * 3)
        self.assertEqual(found["stages"][0]["actions"][0], {"action": "0F0", "begin": 0, "end": 1})

    def test_the_svg_is_xml_with_a_box_for_each_action(self):
        picture = self.dir / "a picture.svg"
        self.show(0, "--schedule", "interleaved", "--pp", 2, "--micro-batches", 4, "--svg", picture)
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertEqual(len(root.findall(".//{http://www.w3.org/2000/svg}title")), 2 * 2 * 4 * 2)

    def test_a_csv_that_was_written_is_shown_like_its_origin(self):
        origin = self.json("--schedule", "zb-h1", "--pp", 3, "--micro-batches", 5, "--csv", "mine.csv")
        again = self.json("--schedule", "mine.csv")
        self.assertEqual(again.pop("schedule"), "mine.csv")
        self.assertEqual(origin.pop("schedule"), "zb-h1")
        self.assertEqual(again, origin)
        self.json("--schedule", "mine.csv", "--pp", 3, "--micro-batches", 5, "--virtual-stages", 1)
        self.assertIn("pp = 3, not 4", self.show(2, "--schedule", "mine.csv", "--pp", 4))

    def test_a_csv_that_deadlocks_is_refused_with_its_cells(self):
        (self.dir / "bad.csv").write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
        text = self.show(2, "--schedule", "bad.csv", "--svg", "no.svg")
        self.assertIn("llmtrain schedule show: bad.csv: deadlock: row 1, column 2 (0B0) waits for 1B0", text)
        self.assertFalse((self.dir / "no.svg").exists())

    def test_what_does_not_fit_exits_2_with_what_does(self):
        self.assertIn("virtual_stages = 2 works",
                      self.show(2, "--schedule", "zbv", "--pp", 4, "--micro-batches", 8, "--virtual-stages", 3))
        self.assertIn("needs --pp and --micro-batches", self.show(2, "--schedule", "1f1b", "--pp", 4))
        self.assertIn("known are gpipe, 1f1b", self.show(2, "--schedule", "gpype", "--pp", 4, "--micro-batches", 8))
        self.assertIn("none.csv", self.show(2, "--schedule", "none.csv"))
        self.show(2, "--schedule", "1f1b", "--pp", "four", "--micro-batches", 8)
        self.show(2)

    def test_a_file_that_cannot_be_written_exits_72(self):
        self.show(72, "--schedule", "1f1b", "--pp", 2, "--micro-batches", 2, "--svg", self.dir)


if __name__ == "__main__":
    run()
