"""The verbs that say what there is: `presets`, `catalog` and `doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from engine.cli import output
from engine.cli.options import AsJson
from engine.cli.session import TargetOption
from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry
from engine.experiment.presets import Preset, all_presets, broken_presets
from engine.experiment.problem import Kind, Problem
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Check
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target


def presets(as_json: AsJson = False) -> int:
    """List what --preset takes."""
    found, broken = all_presets(), broken_presets()
    if as_json:
        entries = [
            {
                "name": one.name,
                "title": one.title,
                "about": one.about,
                "without_gpu": one.without_gpu_note,
                "kind": one.kind,
                "own": one.is_own,
            }
            for one in found
        ]
        problems = [problem.model_dump(mode="json") for problem in broken]
        output.json_object({"presets": entries, "broken": problems})
        return 0
    output.table(("Name", "Kind", "About"), [(one.name, one.kind, _about(one)) for one in found])
    for problem in broken:
        output.line(f"{problem.message} {problem.remedy}")
    return 0


def _about(preset: Preset) -> str:
    """Whether this machine has a GPU is not asked: it would take an import of torch."""
    note = preset.without_gpu_note
    return f"{preset.about} {note}" if note else preset.about


def catalog(as_json: AsJson = False, target: TargetOption = Target.PROCESS) -> int:
    """List the devices, models, datasets and precisions of this machine."""
    with _runner(target) as runner:
        found = runner.catalog()
    if as_json:
        output.json_object(json.loads(found.model_dump_json()))
    else:
        _show_catalog(found)
    return 0


def doctor(as_json: AsJson = False, target: TargetOption = Target.PROCESS) -> int:
    """Say whether this machine is ready. The exit status is 1 if something is wrong."""
    with _runner(target) as runner:
        checks = runner.diagnose().checks
    wrong = [check for check in checks if check.status == "problem"]
    listed = [check.model_dump(mode="json") for check in checks]
    if as_json and wrong:
        output.error(_problem(wrong[0]), as_json, checks=listed)
    elif as_json:
        output.json_object({"checks": listed})
    else:
        output.table(("Check", "", "Found"), [(check.name, check.status, check.detail) for check in checks])
    return 1 if wrong else 0


@contextmanager
def _runner(target: Target) -> Iterator[Runner]:
    with Store() as store, Launcher(target) as launcher:
        if store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield Runner(store, launcher)


def _problem(check: Check) -> Problem:
    return Problem(
        kind=Kind.INTERNAL, message=f"{check.name}: {check.detail}", remedy="Correct that and ask again."
    )


def _show_catalog(found: Catalog) -> None:
    output.table(
        ("Device", "Name", "Memory, GiB", "Precisions"),
        [_device_row(device) for device in found.devices],
        ["Memory, GiB"],
    )
    output.line()
    output.table(("Dataset", "For", "What it is"), [_dataset_row(dataset) for dataset in found.datasets])
    output.line()
    output.table(
        ("Model", "For", "Parameters"),
        [(model.name, model.task, f"{model.parameters:,}") for model in found.models],
        ["Parameters"],
    )


def _device_row(device: DeviceEntry) -> tuple[str, str, str, str]:
    able = [entry.precision.value for entry in device.precisions if entry.available]
    return device.name, device.title, f"{device.memory_mib / MIB_PER_GIB:,.1f}", ", ".join(able)


def _dataset_row(dataset: DatasetEntry) -> tuple[str, str, str]:
    return (
        dataset.name,
        dataset.task,
        dataset.title + (" (to be downloaded)" if dataset.needs_download else ""),
    )
