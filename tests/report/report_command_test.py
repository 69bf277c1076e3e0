"""`llmtrain report` and `llmtrain status` as commands: exit codes, files, and that nothing is changed."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

from tests.support.main import run

CASES = Path(os.environ["LLMTRAIN_SOURCE_DIR"]) / "tests/report/cases"


def llmtrain(*arguments):
    command = [os.environ["LLMTRAIN"], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)


class ReportCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="llmtrain test ")  # a path with a space
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.run_dir = self.scratch / "run"
        shutil.copytree(CASES / "crashed_twice", self.run_dir)

    def files(self):
        return {path: path.stat().st_mtime_ns for path in self.run_dir.rglob("*")}

    def test_report_in_all_forms_changes_nothing(self):
        before = self.files()
        page = self.scratch / "out.html"
        result = llmtrain("report", self.run_dir, "--html", page, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(len(report["incidents"]), 2)
        self.assertAlmostEqual(sum(report["ledger"].values()), report["wall_s"], places=6)
        tags = Tags()
        tags.feed(page.read_text())
        self.assertIn("svg", tags.seen)
        self.assertFalse(tags.seen & {"script", "img", "link", "iframe", "object", "embed"})
        self.assertIn("effective training time", llmtrain("report", self.run_dir).stdout)
        self.assertEqual(llmtrain("status", self.run_dir).returncode, 0)
        self.assertEqual(self.files(), before)

    def test_what_is_no_run_is_refused(self):
        for command in ("report", "status"):
            for path in (self.scratch / "nothing", self.scratch, self.run_dir / "metrics.jsonl"):
                result = llmtrain(command, path)
                self.assertEqual(result.returncode, 2, path)
                self.assertIn(str(path), result.stderr)
        result = llmtrain("report", self.run_dir, "--html", self.scratch / "no/such/place.html")
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_a_held_lock_is_a_live_run(self):
        state = json.loads(llmtrain("status", self.run_dir, "--json").stdout)
        self.assertEqual((state["live"], state["state"]), (False, "finished"))
        if not Path("/proc/locks").exists():
            self.skipTest("this system does not show its locks")
        events = self.run_dir / "events.jsonl"
        events.write_text("".join(events.read_text().splitlines(keepends=True)[:-1]))  # without run_finished
        lock = self.run_dir / "control/lock"
        lock.parent.mkdir()
        with lock.open("w") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            state = json.loads(llmtrain("status", self.run_dir, "--json").stdout)
            self.assertEqual((state["live"], state["state"]), (True, "running"))
        watched = llmtrain("status", self.run_dir, "--json", "--watch")  # ends, since nothing lives
        self.assertEqual(json.loads(watched.stdout)["state"], "failed")


if __name__ == "__main__":
    run()
