"""A cluster for tests: a real slurmctld with two nodes, which are this machine, on the loopback.

Its login node is this machine too. Nothing of it outlives the test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.machines import remote_worker
from engine.machines.machine import Machine, Slurm
from tests.remote import RemoteMachine, command_of, eventually, free_ports, need, prepared, used, user_here

NODES = ("n1", "n2")
_CONF = """
ClusterName=far
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CryptoType=crypto/none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/log-slurmctld
SlurmdLogFile={root}/log-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=5
InactiveLimit=0
KillWait=2
MinJobAge=300
MailProg=/bin/true
DebugFlags=NO_CONF_HASH
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000
PartitionName=short Nodes=n1,n2 Default=YES MaxTime=60 State=UP
"""


@dataclass
class Cluster(RemoteMachine):
    """A prepared cluster; `nodes` are its living daemons."""

    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def ask(self, *words: str) -> str:
        """What one of Slurm's programs says."""
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def jobs(self) -> list[str]:
        """The state of each job that has not ended, with its node."""
        return self.ask("squeue", "-h", "-o", "%T %N").splitlines()

    def running_workers(self) -> list[int]:
        """What trains there, and its keepers."""
        return [pid for pid in self.running() if b"\0serve\0" not in command_of(pid)]

    def kill_node(self, name: str) -> None:
        """Kills a node's daemon, and has Slurm notice it at once. What runs there goes on."""
        daemon = self.nodes.pop(name)
        daemon.kill()
        daemon.wait()
        self.ask("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=killed")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    need("Slurm", is_there=all(map(shutil.which, ("slurmctld", "slurmd"))))
    # their jobs are looked at often
    for name in ("_LOOK_SECONDS", "_LOOK_WAITING_SECONDS"):
        monkeypatch.setattr(remote_worker, name, 0.5)
    with cluster_here(monkeypatch) as made:
        yield made


@contextmanager
def cluster_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """This machine as a cluster."""
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    root.chmod(0o755)
    (root / "state").mkdir()
    (root / "slurm.conf").write_text(_CONF.format(root=root, user=user_here(), ports=free_ports(3)))
    monkeypatch.setenv("SLURM_CONF", str(root / "slurm.conf"))
    home = prepared(root)
    machine = Machine(name="cluster", host="", folder=str(home), slurm=Slurm())
    cluster = Cluster(machine, home, root / "bin")
    controller = _daemon("slurmctld", "-D", "-c")
    try:
        cluster.nodes = {name: _daemon("slurmd", "-D", "-N", name) for name in NODES}
        eventually(lambda: "idle 2" in _said("sinfo", "-h", "-o", "%T %D"))
        with used(cluster):
            yield cluster
    finally:
        _said("scancel", "-p", "short")
        with suppress(AssertionError):
            eventually(lambda: not _said("squeue", "-h", "-o", "%T"), 10)
        for daemon in cluster.nodes.values():
            daemon.kill()
            daemon.wait()
        _kill_steps(root)
        controller.terminate()
        try:
            controller.wait(10)
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait()
        shutil.rmtree(root, ignore_errors=True)


def _daemon(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def _kill_steps(root: Path) -> None:
    """Ends what a killed slurmd has left: its steps, and the scripts of their jobs."""
    conf = f"SLURM_CONF={root}/slurm.conf".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_step = (process / "cmdline").read_bytes().startswith(b"slurmstepd") or b"slurm_script" in (
                process / "cmdline"
            ).read_bytes()
            if is_step and conf in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
