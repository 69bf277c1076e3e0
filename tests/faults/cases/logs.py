"""What the disk of the logs does, and what workers print: nothing of it may reach the training."""

import contextlib
import os
import select
import statistics
import subprocess
import time

from tests.e2e.harness import wait_until
from tests.faults.cases.common import SAVED
from tests.faults.cluster import Cluster


@contextlib.contextmanager
def _small_disk(path, size):
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def _fill(path):
    with open(path, "wb", buffering=0) as ballast:
        with contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)


class _Stderr:
    """The end of the pipe that a worker prints into. An agent that does not read it any more fails the test."""

    def __init__(self, pid):
        self.pipe = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.pipe)

    def write(self, text):
        while text:
            if not select.select([], [self.pipe], [], 10)[1]:
                raise AssertionError("the agent has not read what a worker prints for 10 s")
            text = text[os.write(self.pipe, text):]


def _print(pid, text):
    with _Stderr(pid) as stderr:
        stderr.write(text.encode())


def c11_disks(test):
    """The leader's log disk hangs, the other node's is full until somebody makes room: no incident, nothing lost but
    lines, and those are counted where they are missing and on the consoles."""
    hanging = test.folder / "hanging"
    log = hanging / "0/node0/rank0.err"
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    with _small_disk(test.folder / "full", "64k") as full, Cluster(test) as c:
        _fill(full / "ballast")
        nobody_reads = os.open(log, os.O_RDONLY | os.O_NONBLOCK)  # opening it ends, and then writing does not
        c.start(0, "--log-dir", hanging)
        c.start(1, "--log-dir", full)
        c.wait_for_step(2)
        _print(c.worker(0), "a line that the pipe does not hold\n" * 30_000)
        _print(c.worker(3), "one\ntwo\n")
        leader, follower = c.agents[0].err_path, c.agents[1].err_path
        wait_until(lambda: "2 lines dropped" in leader.read_text(), "the full disk is said on the leader's console")
        test.assertIn("rank3.err cannot be written: No space left on device", leader.read_text())
        (full / "ballast").unlink()
        _print(c.worker(3), "three\n")
        text = "[llmtrain: 2 lines dropped: No space left on device]\nthree\n"
        wait_until(lambda: (full / "0/node1/rank3.err").read_text() == text, "the log goes on, and says what is missing")
        c.finish()
        os.close(nobody_reads)
        test.assertEqual(c.incidents(), [])
        test.assertIn("lines dropped: the log's disk is slow", leader.read_text())
        test.assertNotIn("lines dropped", follower.read_text())
        c.assert_same()
        return c.record("C11 log disks that hang and are full")


def c11_storm(test):
    """One rank prints 100 MB/s: training goes on, its log is rotated and bounded, and what is missing is counted."""
    piece = 1 << 20
    with Cluster(test, overrides=[f"launch.log.max_bytes={piece}", "launch.log.keep=3"]) as c:
        c.start_all().wait_for_step(SAVED)
        block, rate, wanted = b"a line of a rank that has gone mad, again and again and again..\n" * 1000, 100e6, 120e6
        began, written = time.time(), 0
        with _Stderr(c.worker(3)) as stderr:
            while written < wanted:
                stderr.write(block)
                written += len(block)
                time.sleep(max(0.0, began + written / rate - time.time()))
        took = time.time() - began
        c.finish()
        test.assertEqual(c.incidents(), [])
        c.assert_same()
        logs = c.run.path / "logs/0/node1"
        pieces = sorted(logs.glob("rank3.err*"))
        test.assertEqual(len(pieces), 4, pieces)
        for path in pieces:
            test.assertLessEqual(path.stat().st_size, piece)
        test.assertIn("bytes of output were dropped: too much at once", "".join(path.read_text() for path in pieces))
        storm = [row["step_ms"] for row in c.run.metrics() if began < row["time"] < began + took]
        quiet = [row["step_ms"] for row in c.run.metrics() if row["step"] > 1 and row["time"] < began]
        slower = 100 * (statistics.median(storm) / statistics.median(quiet) - 1) if storm else float("nan")
        row = c.record("C11 log storm of one rank")
        row["verdict"] = f"no incident; {written / took / 1e6:.0f} MB/s, steps {slower:+.0f} %"
        return row


ALL = [c11_disks, c11_storm]
