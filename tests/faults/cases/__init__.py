"""The fault cases: each one is a function that disturbs a run and returns its row of docs/FAULTS.md.

    {"case", "detect_ms", "recover_ms", "lost_steps", "verdict"}

Times are counted from the fault on the clock of this machine. Limits in assertions are generous; the table shows
what was measured.
"""

from tests.faults.cases import clock, elastic, logs, network, process, recovery, resources, scheduler, stragglers

ALL = [*process.ALL, *recovery.ALL, *resources.ALL, *network.ALL, *clock.ALL, *scheduler.ALL, *elastic.ALL, *logs.ALL,
       *stragglers.ALL]
