"""`llmtrain doctor`: exit codes and reasons on the host that runs the tests."""

import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.main import run

JOB = Path(os.environ["LLMTRAIN_SOURCE_DIR"]) / "configs/smoke_dp2.yaml"


def doctor(*arguments, before=None):
    command = [os.environ["LLMTRAIN"], "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=before)


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class DoctorCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.run_dir = Path(scratch.name) / "run"

    def test_without_a_job_this_host_is_well(self):
        for before in (None, few_files):
            result = doctor("--json", before=before)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(json.loads(result.stdout)["healthy"])

    def test_too_few_files_for_a_job(self):
        result = doctor(JOB, "--set", f"run.dir={self.run_dir}", before=few_files)
        self.assertEqual(result.returncode, 64)
        self.assertIn("doctor: open files: limit 32", result.stderr)
        result = doctor(JOB, "--set", f"run.dir={self.run_dir}")
        self.assertNotIn("open files", result.stderr)
        self.assertFalse(self.run_dir.exists())

    def test_a_run_directory_that_cannot_be_written(self):
        self.run_dir.write_text("a file")
        result = doctor(JOB, "--set", f"run.dir={self.run_dir}")
        self.assertEqual(result.returncode, 64)
        self.assertIn("doctor: run directory:", result.stderr)

    def test_a_job_that_is_none(self):
        self.assertEqual(doctor(self.run_dir).returncode, 2)


if __name__ == "__main__":
    run()
