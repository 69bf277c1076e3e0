"""Every fault case once, or three times with LLMTRAIN_TEST_LONG=1; those whose times are of interest LLMTRAIN_FAULT_RUNS
times.

LLMTRAIN_FAULT_RECORDS names a file to which the rows are appended, one JSON object a line (scripts/faults.sh).
"""

import json
import os
import shutil

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

if __name__ == "__main__":
    main.run()
