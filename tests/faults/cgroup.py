"""Control groups of the tests: made under the root, and gone at the end. Version 1, and 2 where it has the controller."""

import os
import pathlib
import signal
import time
import uuid

ROOT = pathlib.Path("/sys/fs/cgroup")
# Version 2: the controller that must be enabled; a freezer is part of every group.
CONTROLLERS = {"memory": "memory", "pids": "pids", "cpu": "cpu", "freezer": ""}


def _version_2(controller):
    """Where groups of version 2 with this controller can be made; None: nowhere."""
    for root in (ROOT, ROOT / "unified"):
        listed = root / "cgroup.subtree_control"
        try:
            needed = CONTROLLERS[controller]
            if listed.exists() and needed and needed not in listed.read_text().split():
                listed.write_text(f"+{needed}")
            if listed.exists():
                return root
        except OSError:
            continue
    return None


def _place(controller):
    """(version, folder) in which groups of this controller are made."""
    if (ROOT / controller / "cgroup.procs").exists():
        return 1, ROOT / controller
    return 2, _version_2(controller)


def why_not(controller):
    """Why no group can be made here; empty: it can."""
    version, root = _place(controller)
    if root is None:
        return f"there is no control group with the controller {controller}"
    probe = root / f"llmtrain-probe-{uuid.uuid4().hex[:8]}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"control groups cannot be made here: {error}"
    return ""


class Cgroup:
    """One group. Use as a context manager; what is still in it at the end is thawed and killed."""

    def __init__(self, controller, parent=None):
        self.version, root = _place(controller)
        self.path = (parent.path if parent else root) / f"llmtrain-test-{uuid.uuid4().hex[:8]}"
        if parent and self.version == 2:
            (parent.path / "cgroup.subtree_control").write_text(f"+{CONTROLLERS[controller]}")
        self.path.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.freeze(False)
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = time.monotonic() + 5
        while True:
            try:
                return self.path.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.02)

    @property
    def name(self):
        """As the product names it: without the mount."""
        return f"/{self.path.name}"

    def processes(self):
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit_memory(self, mib):
        (self.path / ("memory.limit_in_bytes" if self.version == 1 else "memory.max")).write_text(f"{mib << 20}")

    def limit_processes(self, count):
        (self.path / "pids.max").write_text(str(count))

    def limit_cpu(self, share):
        """`share` of one core."""
        period_us = 20_000  # short, so that steps of a tenth of a second all have their part
        quota_us = int(share * period_us)
        if self.version == 1:
            (self.path / "cpu.cfs_period_us").write_text(str(period_us))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (self.path / "cpu.max").write_text(f"{quota_us} {period_us}")

    def freeze(self, frozen):
        if (self.path / "freezer.state").exists():
            (self.path / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
        elif (self.path / "cgroup.freeze").exists():
            (self.path / "cgroup.freeze").write_text(str(int(frozen)))
