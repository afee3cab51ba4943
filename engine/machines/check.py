"""The doctor of a remote machine: its connection, system, folder, programs and GPUs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator

from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import BYTES_PER_GIB, shortened
from engine.installation.builds import libc_problem
from engine.installation.description import Description
from engine.machines.machine import Machine, Machines, Slurm
from engine.machines.program import (
    INSTALL_UV,
    install_remedy,
    not_installed_problem,
    program_id,
    remote_description,
)
from engine.machines.ssh import RemoteFacts, SshConnection, inspect_machine, run_script
from engine.protocol.events import Check

_LEAST_BYTES, _ENGINE_BYTES = 2 * BYTES_PER_GIB, 12 * BYTES_PER_GIB
_GPU = "GPU"
_PROCESSORS = ("x86_64", "aarch64", "arm64")


def check_machine(machine: Machine, line: SshConnection | None = None) -> tuple[Machine, tuple[Check, ...]]:
    """Check a machine without changing it. Return its updated entry and the checks. Call it in a thread."""
    line, began = line or SshConnection(machine), time.monotonic()
    try:
        look = inspect_machine(line, machine)
    except ProblemError as error:
        return machine, (Check.of("Connection", error.problem),)
    seconds = time.monotonic() - began
    machine = machine.model_copy(update={"home": look.home, "program": look.program})
    answers = Check.ok("Connection", f"{machine.host or 'This machine'} answered in {seconds:.1f} s")
    there: Description | Problem | None = None
    if look.program:
        try:
            there = remote_description(line, machine)
        except ProblemError as error:
            there = error.problem
    checks = (answers, *_system_checks(look, there), *_program_checks(machine, look, there))
    if machine.slurm is None:
        return machine, checks
    # the GPU, if any, is that of the login node
    return machine, (*(check for check in checks if check.name != _GPU), _slurm_checks(machine.slurm, line))


def check_known(name: str) -> tuple[Machine, tuple[Check, ...]]:
    """Check a machine of the list, and save the findings in the list. Raises ProblemError."""
    machine, checks = check_machine(Machines().find(name))
    Machines().put(machine)
    return machine, checks


def _system_checks(look: RemoteFacts, there: Description | Problem | None) -> Iterator[Check]:
    if look.chatter:
        said = shortened(look.chatter.partition("\n")[0], 80)
        detail = f"The login also prints text to programs, starting with: {said}"
        remedy = "This does no harm here. In .bashrc there, print only in a terminal: [ -t 1 ]."
        yield Check.note("Login", detail, remedy)
    system, processor = look.system or "unknown", look.processor or "unknown"
    if system != "Linux" or processor not in _PROCESSORS:
        detail = f"This is {system} on {processor}. Runs train only on Linux on x86_64 or ARM."
        yield Check.problem("System", detail, "Use a machine with Linux.")
    else:
        yield Check.ok("System", f"Linux, {processor}, {look.libc or 'no glibc'}")
        name, _, version = look.libc.partition(" ")
        if (problem := libc_problem((name, version))) is not None:
            yield Check.of("C library", problem)
    if not look.is_own:
        detail = f"The folder {look.home} contains other files."
        yield Check.problem("Folder", detail, "Name a folder there that only Ammeter uses.")
    elif not look.is_writable:
        remedy = "Name a folder that you can write to."
        yield Check.problem("Folder", f"You cannot write to {look.home}.", remedy)
    else:
        yield Check.ok("Folder", look.home)
    is_set_up = isinstance(there, Description) and there.engine.is_usable
    if look.unread:
        runs = "1 run" if look.unread == 1 else f"{look.unread:,} runs"
        remedy = "`ammeter resume ID` reads the results of a run. "
        remedy += f"To discard a run, delete its folder in {look.home}/workers."
        yield Check.note("Unread runs", f"{runs} there: still training, or results not fully read.", remedy)
    least, free = _LEAST_BYTES if is_set_up else _ENGINE_BYTES, f"{look.free_bytes / BYTES_PER_GIB:,.1f} GiB"
    if look.free_bytes >= least:
        yield Check.ok("Disk", f"{free} free in {look.home}")
    else:
        remedy = f"Free some disk space there: {least / BYTES_PER_GIB:,.0f} GiB or more are recommended."
        yield Check.note("Disk", f"Only {free} are free in {look.home}.", remedy)


def _program_checks(
    machine: Machine, look: RemoteFacts, there: Description | Problem | None
) -> Iterator[Check]:
    if not look.program:
        yield _tools(look)
        yield Check.of("Program", not_installed_problem(machine))
        return
    if isinstance(there, Problem):
        yield Check.of("Program", there)
        return
    assert there is not None
    if look.program != program_id():
        yield _tools(look)
        detail = f"{machine.name} has a different version of Ammeter ({look.program}, here {program_id()})."
        update = f"Update it: `ammeter engine install --machine {shlex.quote(machine.name)}`."
        yield Check.note("Program", detail, update)
    else:
        yield Check.ok("Program", f"same version as here ({look.program})")
    if there.problem is not None:
        yield Check.problem("PyTorch", there.problem.message, install_remedy(machine))
    else:
        build = "" if there.installation is None else f", build {there.installation.backend}"
        yield Check.ok("PyTorch", f"{there.torch or 'unknown version'}{build}")
    names = ", ".join(gpu.name for gpu in there.hardware.gpus)
    none = "No GPU was found. Training runs on the CPU."
    yield Check(name=_GPU, status="ok" if names else "note", detail=names or none)


def _tools(look: RemoteFacts) -> Check:
    if not (look.is_same_platform or look.uv):
        detail = "uv, which installs Ammeter, is missing there. This machine's uv does not run there."
        return Check.problem("uv", detail, INSTALL_UV)
    python = f"Python {look.pythons[0]}" if look.pythons else "no Python yet (uv downloads one)"
    where = "copied from this machine" if look.is_same_platform else look.uv
    return Check.ok("uv", f"{where}, {python}")


def _slurm_checks(slurm: Slurm, line: SshConnection) -> Check:
    partition = ["-p", slurm.partition] if slurm.partition else []
    try:
        answer = run_script(line, "sbatch --version && sinfo -h -o '%D nodes in %P' \"$@\"", partition)
    except ProblemError as error:
        return Check.of("Slurm", error.problem)
    lines = [shortened(each, 200) for each in answer.text.splitlines()[:20]]
    is_there = answer.status == 0 and len(lines) > 1
    remedy = "" if is_there else "Name the login node of a cluster and one of its partitions."
    return Check(name="Slurm", status="ok" if is_there else "problem", detail=", ".join(lines), remedy=remedy)
