"""A run as a Python program: its source, its docstring, and the images that it needs.

If the program would be too long, parts are omitted and listed in its docstring.
"""

from __future__ import annotations

import io
import re
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, FunctionLoader, StrictUndefined
from pydantic import BaseModel

from engine import __version__
from engine.experiment.experiment import Checkpoint, Experiment
from engine.experiment.problem import request_error
from engine.export.content import Content
from engine.export.script.data import DOWNLOADED, data_argument, data_facts, loading_lines
from engine.export.script.model import model_facts
from engine.export.script.own import fill_markers, imports_of, literal, merged_imports, sentence_of
from engine.export.script.training import TrainingFacts, applied_parts
from engine.store.record import RunRecord
from engine.words.names import listed

_WIDTH = 100
_LIBRARIES = ("torch", "torchao", "torchvision", "transformers", "timm", "pyarrow", "safetensors", "numpy")


def docstring_of(run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]) -> str:
    """Return the docstring, a paragraph of sentences. `left_out` names the omitted parts."""
    precision = training.experiment.precision.label
    made = run.environment.ammeter if run.environment is not None else __version__
    title = f"{sentence_of(run.name)}: {precision}, as trained by Ammeter {sentence_of(made)}."
    text = " ".join(_sentences(run, training, imports, left_out))
    # breaking a word might break an escape
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    if training.several:
        lines += ["", f"    torchrun --standalone --nproc-per-node {training.experiment.devices} SCRIPT.py"]
    return '"""' + "\n".join([title, "", *lines]) + '\n"""'


def _sentences(
    run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]
) -> Iterator[str]:
    yield f"Requires {_libraries(imports)}."
    yield from _on_file(training)
    if run.environment is not None:
        device, version = sentence_of(run.environment.device_name), sentence_of(run.environment.torch)
        yield f"The run trained on {device} with PyTorch {version}."
    yield from _on_data(training)
    yield from _on_recipe(training)
    differs = training.was_sharded or "losses differ" in " ".join(left_out)
    is_the_runs = run.environment is not None and not differs
    if is_the_runs and training.experiment.device == "cpu" and not training.parts:
        threads = "threads (OMP_NUM_THREADS)" if training.several else "threads"
        yield f"On that CPU, with the same number of {threads}, the losses equal the run's bit for bit."
    if left_out:
        yield f"Omitted to keep it short: {', '.join(left_out)}."
    if training.several:
        yield f"It trains on {training.experiment.devices} devices, one process per device. Start it with:"


def _libraries(imports: str) -> str:
    used = [name for name in _LIBRARIES if re.search(rf"^(import|from) {name}\b", imports, re.MULTILINE)]
    if "numpy" in used and {"torchvision", "transformers", "timm"} & set(used):
        used.remove("numpy")  # which they bring with them
    return listed(used)


def _on_file(training: TrainingFacts) -> Iterator[str]:
    own = training.own
    if own is None:
        return
    name = sentence_of(own.code.file)
    held, them = (f"{name} and the modules next to it", "them") if own.companions else (name, "it")
    yield f"It contains {held} as used by the run. Relative paths in {them} start at the working directory."
    if own.defines("dataset") and training.data.own is not None and training.experiment.data.workers:
        yield "The run loaded samples in worker processes. This script loads them itself."


_DATA: dict[str, str] = {
    "npz": "--data is the .npz file with its images, saved with it.",
    **dict.fromkeys(DOWNLOADED, "--data is the folder to download the images to."),
    "folder": (
        "--data is a folder with a subfolder of images per class, or with such in train/ and val/."
        " No subfolder may be hidden or empty. Images have 8 bits per channel."
    ),
    "arrays": "--data is the file with the arrays, which are kept on the device.",
    "texts": "--data is the folder with the text.",
    "text": "It trains on the source code of the running Python, which differs between versions.",
}


def _on_data(training: TrainingFacts) -> Iterator[str]:
    data, settings = training.data, training.experiment.data
    if data.known.reader in _DATA:
        yield _DATA[data.known.reader]
    if data.form == "memory" and data.known.colors and settings.on_device is False:
        yield "The run loaded images batch by batch. Here they are on the device, in the same order."
    if data.form == "loaded" and settings.on_device:
        yield "The run kept its images on the device. Here they are generated in each epoch."


def _on_recipe(training: TrainingFacts) -> Iterator[str]:
    if "capture" in training.parts:
        yield "The run used a CUDA graph. This script does not: it is slower, with the same losses."
    if training.was_sharded:
        yield "FSDP2 sharded the run's model. Here each device has all of it, and losses differ slightly."
    cap = training.experiment.memory_cap_gib
    if cap is not None and training.cap_gib is None:
        yield f"The run was limited to {cap:g} GiB of memory. This script is not."


def shortened_experiments(experiment: Experiment) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """Yield the experiment with more and more parts omitted, and their names, harmless ones first."""
    left_out: tuple[str, ...] = ()
    for part, change in _WAYS:
        shorter = experiment.model_copy(update=change(experiment))
        if shorter != experiment:
            experiment, left_out = shorter, (*left_out, part)
            yield experiment, left_out


def _without(part: BaseModel, **settings: Any) -> BaseModel:
    return part.model_copy(update=settings)


_WAYS: tuple[tuple[str, Callable[[Experiment], dict[str, Any]]], ...] = (
    ("its checkpoints", lambda run: {"checkpoint": Checkpoint()}),
    ("its stop at NaN", lambda run: {"on_nan": "continue"}),
    ("its memory cap", lambda run: {"memory_cap_gib": None}),
    ("activation checkpointing", lambda run: {"step": _without(run.step, activation_checkpointing=False)}),
    (
        "its validation",
        lambda run: {"validation": _without(run.validation, every=0)} if data_facts(run).validates else {},
    ),
    (
        "the modules kept in FP32 (so losses differ)",
        lambda run: {"step": _without(run.step, fp32_modules=())} if run.precision.is_autocast else {},
    ),
    ("the augmentation (so losses differ)", lambda run: {"data": _without(run.data, augment=False)}),
)


MOST_LINES = 119
_RANKS_LINES = 45  # additional lines for multiple devices
Style = Literal["airy", "dense", "terse"]  # with blank lines and docstrings, docstrings only, or neither
_STYLES: tuple[Style, ...] = get_args(Style)
_DOCSTRINGS = re.compile(r'^ +""".*"""\n\n?', re.MULTILINE)
_COMMENTS = re.compile(r"^ +#.*\n", re.MULTILINE)


def script_source(run: RunRecord, steps_per_epoch: int | None = None) -> str:
    """Return the source of a program that repeats the run's training and prints the loss of each step.

    It has fewer than 120 lines, or 165 for multiple devices. `steps_per_epoch`, known once a run has started,
    matters for a few learning rate schedules. Raises ProblemError if the model, dataset or schedule is not
    supported.
    """
    for experiment, left_out in ((run.experiment, ()), *shortened_experiments(run.experiment)):
        data = data_facts(experiment)
        sizes = {"channels": data.known.channels, "classes": data.classes, "image_size": data.size}
        model = model_facts(experiment, **sizes)
        facts = TrainingFacts(experiment, model, data, applied_parts(run), steps_per_epoch)
        for style in _STYLES:
            body = _body(facts, style)
            text = _rendered(run, facts, body, left_out)
            # of a model's own file neither its text counts nor what completes it
            counted = text if facts.own is None else text.rpartition(_TRAINING)[2]
            if counted.count("\n") <= MOST_LINES + (_RANKS_LINES if facts.several else 0):
                return text
    # so many parts at once are rare: the code has to speak for itself
    return _rendered(run, facts, _COMMENTS.sub("", body), left_out)


_TRAINING = "# how the run trained it"


def _body(facts: TrainingFacts, style: Style) -> str:
    body = (
        _templates()
        .get_template("script.jinja")
        .render(
            experiment=facts.experiment,
            parts=facts.parts,
            model=facts.model,
            data=facts.data,
            training=facts,
            several=facts.several,
            say="report" if facts.several else "print",
            own=facts.own,
            style=style,
            argument=data_argument(facts.data),
            loading=loading_lines(facts.data),
            unpacked="*" if facts.data.form in ("memory", "turns") else "",
        )
    )
    return _DOCSTRINGS.sub("", body) if style == "terse" else body


def _rendered(run: RunRecord, facts: TrainingFacts, body: str, left_out: tuple[str, ...]) -> str:
    own, imports = facts.own, imports_of(body)
    if own is not None:
        imports = merged_imports(imports, *own.imports)
        body = f"\n{fill_markers(own, body)}"
    return f"{docstring_of(run, facts, imports, left_out)}\n\n{imports}\n\n{body.rstrip()}\n"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = literal
    return environment


def _template(name: str) -> str:
    return (files("resources") / "script" / name).read_text(encoding="utf-8")


def write_script(content: Content, path: Path) -> None:
    """Write the script of a single run, with the images if they come with the program.

    Raises ProblemError for several runs, or if a script is not supported for the run.
    """
    if len(content.runs) != 1:
        message = f"A script needs exactly one run, but {len(content.runs):,} were given."
        raise request_error(message, "Select one run.", key="run")
    (run,) = content.runs
    started = content.started(run.id)
    text = script_source(run, None if started is None else started.steps_per_epoch)
    path.write_text(text, encoding="utf-8", newline="\n")
    data = built_in_data(run)
    if data is not None:
        path.with_suffix(".npz").write_bytes(data)


def built_in_data(run: RunRecord) -> bytes | None:
    """Return the built-in images as .npz with their license, or None if the run used other data."""
    if run.experiment.dataset != "fashion":
        return None
    folder = files("resources") / "fashion"
    packed = io.BytesIO((folder / "fashion.npz").read_bytes())
    with zipfile.ZipFile(packed, "a") as archive:
        # with a fixed date, so that the same images give the same file
        archive.writestr(zipfile.ZipInfo("LICENSE"), (folder / "LICENSE").read_bytes())
    return packed.getvalue()
