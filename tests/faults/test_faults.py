"""Every fault case once, or three times with LLMTRAIN_TEST_LONG=1; those whose times are of interest LLMTRAIN_FAULT_RUNS
times.

    test_faults.py [Faults.test_p1 ...]   all, or these
    test_faults.py --jobs 2               all, in two processes at a time: cases mostly wait. Not for figures.

LLMTRAIN_FAULT_RECORDS names a file to which the rows are appended, one JSON object a line (scripts/faults.sh).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from tests.e2e.harness import LONG
from tests.faults import cases
from tests.faults.cluster import FaultTest
from tests.support import main

TIMED = ("p1", "p4", "p6", "p7", "p9", "p10", "p12", "n1")
LASTS = ("n10",)  # ten minutes with LONG: once is enough


class Faults(FaultTest):
    pass


def repetitions(name):
    usual = 3 if LONG and name not in LASTS else 1
    return int(os.environ.get("LLMTRAIN_FAULT_RUNS", usual)) if name in TIMED else usual


def add(case):
    def test(self):
        for _ in range(repetitions(case.__name__)):
            row = case(self)
            print(json.dumps(row), flush=True)
            records = os.environ.get("LLMTRAIN_FAULT_RECORDS")
            if records:
                with open(records, "a") as out:
                    out.write(json.dumps(row) + "\n")
            for path in list(self.folder.iterdir()):  # the next repetition starts with nothing
                if path.is_dir():
                    shutil.rmtree(path)
    test.__doc__ = case.__doc__
    setattr(Faults, f"test_{case.__name__}", test)


for one in cases.ALL:
    add(one)

def run_in_parallel(jobs):
    """Exit as main.run() does, with the output of one process behind that of the other."""
    names = [f"Faults.test_{case.__name__}" for case in cases.ALL]
    running = []
    for job in range(jobs):
        output = tempfile.TemporaryFile("w+")
        words = [sys.executable, __file__, *names[job::jobs]]
        running.append((subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT), output))
    codes = [process.wait() for process, _ in running]
    for _, output in running:
        output.seek(0)
        print(output.read(), flush=True)
    failed = [code for code in codes if code not in (0, 77)]
    sys.exit(failed[0] if failed else min(codes))  # 77 only if nothing could run


if __name__ == "__main__":
    if sys.argv[1:2] == ["--jobs"]:
        run_in_parallel(int(sys.argv[2]))
    main.run(may_skip_in_ci="control group")  # of a host that is a container itself they cannot be made
