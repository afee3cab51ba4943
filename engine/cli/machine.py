"""The verbs `presets`, `settings`, `catalog`, `doctor` and `template`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from engine.cli import output
from engine.cli.options import AsJson
from engine.cli.session import TargetOption
from engine.doctor.doctor import examine
from engine.doctor.report import report_text
from engine.experiment.catalog import OWN
from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry
from engine.experiment.experiment import Experiment, flattened, setting_help, setting_title
from engine.experiment.own.library_models import LIBRARIES, Library
from engine.experiment.presets import Preset, all_presets, broken_presets
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem, unknown_name
from engine.experiment.value import MIB_PER_GIB
from engine.export.template import TEMPLATE_NAME, write_template
from engine.protocol.events import Check
from engine.runner import Runner
from engine.store.store import Store
from engine.words.names import as_typed
from engine.worker.launcher import Launcher, Target


def presets(as_json: AsJson = False) -> int:
    """List the presets."""
    readable, broken = all_presets(), broken_presets()
    if as_json:
        entries = [
            {
                "name": preset.name,
                "title": preset.title,
                "about": preset.about,
                "without_gpu": preset.without_gpu_note,
                "kind": preset.kind,
                "parts": preset.parts,
                "own": preset.is_own,
            }
            for preset in readable
        ]
        problems = [problem.model_dump(mode="json") for problem in broken]
        output.json_object({"presets": entries, "broken": problems})
        return 0
    rows = [(preset.name, preset.kind, _about(preset)) for preset in readable]
    output.table(("Name", "Kind", "About"), rows)
    for problem in broken:
        output.line(f"{problem.message} {problem.remedy}")
    return 0


def _about(preset: Preset) -> str:
    # whether this machine has a GPU is not asked: it would take an import of torch
    note = preset.without_gpu_note
    return f"{preset.about} {note}" if note else preset.about


def settings(as_json: AsJson = False) -> int:
    """List what --set takes: every setting, its default, and what it is for."""
    defaults = flattened(Experiment())
    if as_json:
        entries = [
            {"key": key, "default": value, "title": setting_title(key), "about": setting_help(key)}
            for key, value in defaults.items()
        ]
        output.json_object({"settings": entries})
        return 0
    rows = [(key, as_typed(value), setting_help(key)) for key, value in defaults.items()]
    output.table(("Setting", "Default", "About"), rows)
    return 0


_LIBRARY = typer.Option(
    "--library", metavar="NAME", help="List the models of timm or hf (transformers) and nothing else."
)


def catalog(
    as_json: AsJson = False,
    library: Annotated[str | None, _LIBRARY] = None,
    target: TargetOption = Target.PROCESS,
) -> int:
    """List the devices, models, datasets and precisions of this machine."""
    chosen = None if library is None else _library(library)
    with _runner(target) as runner:
        entries = runner.catalog()
    if chosen is not None:
        _show_library(chosen, entries, as_json)
    elif as_json:
        counts = {library.prefix: sum(1 for _ in entries.models_of(library)) for library in LIBRARIES}
        output.json_object(
            {**entries.model_dump(mode="json", exclude={"library_models"}), "library_models": counts}
        )
    else:
        _show_catalog(entries)
    return 0


def _library(name: str) -> Library:
    """The library of that prefix or that package. Raises ProblemError."""
    names = {text: library for library in LIBRARIES for text in (library.prefix, library.package)}
    if name not in names:
        raise ProblemError(unknown_name("library", name, names, "library of models"))
    return names[name]


def _show_library(library: Library, catalog: Catalog, as_json: bool) -> None:
    if not any(catalog.models_of(library)):
        remedy = "Install it, and list its models again."
        raise ProblemError(request_problem(f"{library.missing}.", remedy, key="library"))
    models = list(catalog.models_of(library))
    if as_json:
        output.json_object({"models": [entry.model_dump(mode="json") for entry in models]})
    else:
        output.table(
            ("Model", "For"), [(entry.name, _PURPOSES.get(entry.task, entry.task)) for entry in models]
        )


_PURPOSES = {"own": "made-up data of its own"}


_REPORT = typer.Option(
    "--report", help="Print it as Markdown for a bug report, without your names and paths."
)


def doctor(
    as_json: AsJson = False,
    report: Annotated[bool, _REPORT] = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Check whether this machine is ready. The exit status is 1 if something is wrong."""
    with Launcher(target) as launcher:
        checks = examine(launcher)
    failed = [check for check in checks if check.status == "problem"]
    entries = [check.model_dump(mode="json") for check in checks]
    if as_json and failed:
        output.error(_problem(failed[0]), as_json, checks=entries)
    elif as_json:
        output.json_object({"checks": entries})
    elif report:
        output.line(report_text(checks))
    else:
        rows = [(check.name, check.status, f"{check.detail}\n{check.remedy}".strip()) for check in checks]
        output.table(("Check", "", "Found"), rows)
    return 1 if failed else 0


def template(
    path: Annotated[Path, typer.Argument(metavar="FILE.py", help="The file to write.")] = Path(TEMPLATE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> int:
    """Write a short commented model file, to be made into your own.

    A model file defines model(), and if you like batch(size), dataset(), validation_dataset(),
    collate(samples), forward(model, inputs), loss(outputs, targets), optimizer(model),
    accuracy(outputs, targets) and step(train, batch). The guide says what each returns: F1 in the window,
    or resources/guide/model-file.md.
    """
    written = write_template(path, force=force)
    if as_json:
        output.json_object({"path": str(written.absolute())})
    else:
        output.line(f"Wrote {written}. Train it with: ammeter run --model {written}")
    return 0


@contextmanager
def _runner(target: Target) -> Iterator[Runner]:
    with Store() as store, Launcher(target) as launcher:
        if store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield Runner(store, launcher)


def _problem(check: Check) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"{check.name}: {check.detail}",
        remedy=check.remedy or "Correct it and try again.",
    )


def _show_catalog(catalog: Catalog) -> None:
    output.table(
        ("Device", "Name", "Memory, GiB", "Precisions"),
        [_device_row(device) for device in catalog.devices],
        ["Memory, GiB"],
    )
    output.line()
    output.table(("Dataset", "For", "What it is"), [_dataset_row(dataset) for dataset in catalog.datasets])
    output.line()
    output.table(
        ("Model", "For", "Parameters"),
        [
            (model.name, model.task, "" if model.parameters is None else f"{model.parameters:,}")
            for model in catalog.models
        ],
        ["Parameters"],
    )
    output.line()
    output.line("FILE.py  a file of your own; `ammeter template` writes one to begin with.")
    for library in LIBRARIES:
        count = sum(1 for _ in catalog.models_of(library))
        output.line(
            f"{library.prefix}:NAME  {count:,} models of {library.package}; "
            f"`ammeter catalog --library {library.prefix}` lists them."
            if count
            else f"{library.prefix}:NAME  {library.missing}."
        )


def _device_row(device: DeviceEntry) -> tuple[str, str, str, str]:
    precisions = [entry.precision.value for entry in device.precisions if entry.available]
    return device.name, device.title, f"{device.memory_mib / MIB_PER_GIB:,.1f}", ", ".join(precisions)


def _dataset_row(dataset: DatasetEntry) -> tuple[str, str, str]:
    title = f"{dataset.title} (to be downloaded)" if dataset.needs_download else dataset.title
    return dataset.name, _DATA_FOR.get(dataset.name, dataset.task), title


_DATA_FOR = {OWN: "model files, some hf:TYPE"}
