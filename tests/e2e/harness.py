"""Runs the real executable in a folder of its own and looks at what it leaves behind.

A test derives from E2eTest. Everything it starts carries a mark in its environment, so that workers are
found even when their agent is gone; whatever is still alive at the end of a test is killed and fails it.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])
LLMTRAIN = os.environ["LLMTRAIN"]
LONG = os.environ.get("LLMTRAIN_TEST_LONG") == "1"
SMOKE = ROOT / "configs/smoke_dp2.yaml"
PATIENCE = 150.0  # seconds; a wait that takes this long has failed


class Result:
    """A finished command."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    def __str__(self):
        return f"{' '.join(map(str, self.args))}\nexit {self.code}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-6000:]}"


def processes_with(mark):
    """Pids of live processes that carry `mark` in their environment; zombies are dead."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes() and state_of(int(entry.name)) != "Z":
                found.append(int(entry.name))
        except OSError:
            continue  # gone, or not ours
    return found


def state_of(pid):
    """R, S, T, Z, ...; None when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def children_of(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def wait_until(condition, what, seconds=PATIENCE):
    """The first true value of `condition()`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds:.0f} s in vain: {what}")


class RunDir:
    """The files of a run directory, read as they are now."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def rows(self, name):
        """Complete lines of a .jsonl file."""
        path = self.path / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def metrics(self):
        return self.rows("metrics.jsonl")

    def events(self, event=None):
        return [row for row in self.rows("events.jsonl") if event in (None, row["event"])]

    def last_step(self):
        return max((row["step"] for row in self.metrics()), default=0)

    def losses(self):
        """Loss of each step in the accepted history: the last row of a step counts."""
        return {row["step"]: row["loss"] for row in self.metrics()}

    def checkpoints(self):
        """Committed step directories, oldest first."""
        folder = self.path / "checkpoints"
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        return [p for p in found if p.name.startswith("step-") and (p / "manifest.json").exists()]

    def checkpoint_steps(self):
        return [int(p.name.split("-")[1].split(".")[0]) for p in self.checkpoints()]


class Running:
    """An llmtrain command in the background."""

    def __init__(self, test, args):
        self.args = args
        self.err_path = test.folder / f"stderr-{uuid.uuid4().hex[:8]}"
        self.out_path = test.folder / f"stdout-{uuid.uuid4().hex[:8]}"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                args, cwd=test.folder, env=test.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        self.pid = self.process.pid

    def signal(self, number):
        os.kill(self.pid, number)

    def workers(self):
        """{rank: pid} of the live workers that are children of the command."""
        named = {pid: name_of(pid) for pid in children_of(self.pid)}
        return {int(n.removeprefix("llmtrain-r")): p for p, n in named.items() if n.removeprefix("llmtrain-r").isdigit()}

    def resident_kib(self):
        """What the process holds in memory now; 0 when it is gone."""
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)

    def console(self):
        """What it has said so far on stderr."""
        return self.err_path.read_text(errors="replace")

    def finish(self, seconds=PATIENCE):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:.0f} s: {self.result(None)}") from None
        return self.result(self.process.returncode)

    def result(self, code):
        # As a shell reports it: 128 + n for a signal.
        code = 128 - code if code is not None and code < 0 else code
        return Result(self.args, code, self.out_path.read_text(errors="replace"), self.err_path.read_text(errors="replace"))


class E2eTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain e2e "))  # with a space, on purpose
        self.mark = f"llmtrain-test-{uuid.uuid4().hex}"
        self.env = {**os.environ, "LLMTRAIN_TEST_MARK": self.mark}
        self.addCleanup(self.clean_up)

    def clean_up(self):
        left = processes_with(self.mark)
        named = [f"{pid} {name_of(pid)}" for pid in left]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        failed = not self._outcome.success
        if os.environ.get("LLMTRAIN_KEEP") != "1":
            shutil.rmtree(self.folder, ignore_errors=True)
        if left and not failed:
            self.fail(f"processes were left behind: {named}")

    # ---- running commands -----------------------------------------------------------------------------
    def start(self, *args):
        return Running(self, [LLMTRAIN, *map(str, args)])

    def run_command(self, *args, seconds=PATIENCE):
        return self.start(*args).finish(seconds)

    def expect(self, code, *args, seconds=PATIENCE):
        result = self.run_command(*args, seconds=seconds)
        self.assertEqual(result.code, code, str(result))
        return result

    @staticmethod
    def sets(*overrides):
        return [word for override in overrides for word in ("--set", override)]

    def start_launch(self, name, *overrides, config=SMOKE):
        """Start a launch of `config` with the run directory `name` in this test's folder."""
        return self.start("launch", config, *self.sets(f"run.dir={name}", *overrides)), RunDir(self.folder / name)

    def launch(self, name, *overrides, config=SMOKE, code=0):
        running, run = self.start_launch(name, *overrides, config=config)
        result = running.finish()
        self.assertEqual(result.code, code, str(result))
        return run, result

    def resume(self, run, *overrides, code=0):
        return self.expect(code, "resume", run.path, *self.sets(*overrides))

    # ---- judging runs ---------------------------------------------------------------------------------
    def assert_identical(self, run, other):
        result = self.expect(0, "ckpt", "diff", run.path, other.path)
        self.assertEqual(result.out.splitlines()[-1], "identical", str(result))

    def assert_verified(self, run):
        self.expect(0, "ckpt", "verify", run.path)

    def wait_for_step(self, run, step, running=None):
        def reached():
            if running is not None and running.process.poll() is not None:
                raise AssertionError(f"ended before step {step}: {running.finish()}")
            return run.last_step() >= step
        wait_until(reached, f"step {step} of {run.path}")
