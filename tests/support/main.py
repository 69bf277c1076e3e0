"""How Python test scripts end: 0 passed, 1 failed, 77 everything was skipped.

With CI=true a skipped test is a failure, unless the script says that its skips are allowed there
(labels gpu and shared), or for which reason.
"""

import os
import sys
import unittest


def run(may_skip_in_ci=False):
    """Run the tests of the calling script and exit. Call it under `if __name__ == "__main__"`.

    `may_skip_in_ci`: whether, or the words of the one reason that is allowed."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0:
        sys.exit("no test ran")
    if result.skipped:
        wrong = [why for _, why in result.skipped if may_skip_in_ci is not True and str(may_skip_in_ci) not in why]
        if os.environ.get("CI") == "true" and wrong:
            sys.exit("with CI=true no test of this script may skip: " + "; ".join(wrong))
        if len(result.skipped) == result.testsRun:
            sys.exit(77)
    sys.exit(0)
