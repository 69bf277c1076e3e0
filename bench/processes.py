"""What running processes are, and what they weigh, from /proc."""

import pathlib
import threading


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def tree(pid):
    """A process and everything under it, as far as it is still there."""
    found = [pid]
    for parent in found:
        try:
            found += children(parent)
        except OSError:
            continue
    return found


def pss_bytes(pid):
    """Its own pages, and of those it shares with others its share; 0 when it is gone."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


class MemoryWatch:
    """The largest sum over a tree of processes, looked at every few seconds until the block is left."""

    def __init__(self, pid, interval_s=2.0):
        self.pid, self.interval_s = pid, interval_s
        self.total = self.launcher = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.done.wait(self.interval_s):
            pids = tree(self.pid)
            sizes = [pss_bytes(pid) for pid in pids]
            if sum(sizes) > self.total:
                self.total, self.launcher = sum(sizes), sizes[0]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
