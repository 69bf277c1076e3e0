"""A real Slurm of some nodes on one host: slurmctld and a slurmd for each, without munge, in a temporary directory.

Nothing of the system's own Slurm is read or touched: another configuration, free ports, no cgroups. It needs
the daemons of Debian's slurmctld and slurmd and root, since slurmd starts its jobs as their users. Whatever
runs under it carries SLURM_CONF of this rig in its environment, and is killed when the rig ends.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE = 120.0  # seconds; a wait that takes this long has failed
PROGRAMS = ["slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "squeue", "scancel"]

# Requeued jobs wait for the life of a credential (120 s unless set), so it is short here.
CONF = """\
ClusterName=rig
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
ReturnToService=2
JobRequeue=1
KillWait=5
SlurmdTimeout={slurmd_timeout}
MailProg=/bin/true
{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4096 State=UNKNOWN\n"


def find(program):
    """Daemons lie in /usr/sbin, which a user's PATH need not name."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing():
    """Why there can be no rig here; None when there can."""
    absent = [program for program in PROGRAMS if find(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: slurmctld slurmd slurm-client)"
    if os.geteuid() != 0:
        return "slurmd needs root"
    return None


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


class SlurmRig:
    """with SlurmRig() as rig: rig.run("sbatch", ...)

    Nodes are n1, n2, ...; one whose slurmd is silent for `slurmd_timeout` seconds is taken for lost."""

    def __init__(self, nodes=2, slurmd_timeout=300):
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.slurmd_timeout = slurmd_timeout

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-slurm-"))
        self.daemons = []
        self.slurmds = {}  # by node
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self):
        for name in ["state", *(f"spool-{node}" for node in self.nodes)]:
            (self.root / name).mkdir()
        self.conf = self.root / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + len(self.nodes))
        nodes = "".join(NODE.format(name=node, host=host, port=port) for node, port in zip(self.nodes, ports[1:]))
        self.conf.write_text(
            CONF.format(host=host, root=self.root, ports=ports, nodes=nodes, slurmd_timeout=self.slurmd_timeout))
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        self.environment["SLURM_CONF"] = str(self.conf)
        self.environment["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        self._daemon("slurmctld", "-D", "-i", "-f", self.conf)
        for node in self.nodes:
            self.slurmds[node] = self._daemon("slurmd", "-D", "-N", node, "-f", self.conf)
        idle = ["idle"] * len(self.nodes)
        self.wait(lambda: self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split() == idle, "idle nodes")

    def _daemon(self, program, *arguments):
        log = open(self.root / f"{program}-{len(self.daemons)}.console", "wb")
        with log:
            self.daemons.append(subprocess.Popen(
                [find(program), *map(str, arguments)], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True))
        return self.daemons[-1]

    def __exit__(self, *_):
        if getattr(self, "conf", None) is not None:
            for job in self.jobs():
                self.run("scancel", "--signal=KILL", "--full", job)
                self.run("scancel", job)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(timeout=20)
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.root, ignore_errors=True)

    def processes(self):
        """Pids of whatever runs with this rig's configuration, the rig's own daemons aside."""
        mark = f"SLURM_CONF={self.root}/".encode()
        own = {daemon.pid for daemon in self.daemons} | {os.getpid()}
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) not in own and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # gone, or not ours
        return found

    def run(self, program, *arguments, cwd=None, timeout=60, check=False):
        return subprocess.run([find(program), *map(str, arguments)], env=self.environment, cwd=cwd, timeout=timeout,
                              check=check, text=True, stdin=subprocess.DEVNULL, capture_output=True)

    def jobs(self):
        return self.run("squeue", "-h", "-o", "%i").stdout.split()

    def show(self, job):
        """What `scontrol show job` knows, by field."""
        text = self.run("scontrol", "show", "job", job, "-o").stdout
        return dict(field.split("=", 1) for field in text.split() if "=" in field)

    def state(self, job):
        return self.show(job).get("JobState", "?")

    def submit(self, script, cwd, *arguments):
        """The job's number; sbatch must accept the script."""
        done = self.run("sbatch", "--parsable", *arguments, script, cwd=cwd)
        if done.returncode != 0:
            raise AssertionError(f"sbatch exit {done.returncode}: {done.stderr}")
        return done.stdout.strip().split(";")[0]

    def wait(self, condition, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"waited {seconds:.0f} s in vain: {what}\n{self.logs()}")

    def logs(self):
        parts = []
        for path in sorted([*self.root.glob("*.log"), *self.root.glob("*.console")]):
            parts.append(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(parts)
