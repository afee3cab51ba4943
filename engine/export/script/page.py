"""A run as a Python program: its source, its docstring, and the pictures that it needs.

If the program would become too long, parts are left out, and its docstring names them.
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
from engine.export.script.own import imports_of, in_place, literal, merged_imports, sentence_of
from engine.export.script.training import TrainingFacts, parts_in_force
from engine.store.record import RunRecord
from engine.words.names import listed

_WIDTH = 100
_LIBRARIES = ("torch", "torchao", "torchvision", "transformers", "timm", "pyarrow", "safetensors", "numpy")


def head_of(run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]) -> str:
    """The docstring, a paragraph of sentences; `left_out` names the parts left out."""
    precision = training.experiment.precision.label
    made = run.environment.ammeter if run.environment is not None else __version__
    title = f"{sentence_of(run.name)}: {precision}, as Ammeter {sentence_of(made)} trained it."
    text = " ".join(_sentences(run, training, imports, left_out))
    # breaking a word might break an escape
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    if training.several:
        lines += ["", f"    torchrun --standalone --nproc-per-node {training.experiment.devices} SCRIPT.py"]
    return '"""' + "\n".join([title, "", *lines]) + '\n"""'


def _sentences(
    run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]
) -> Iterator[str]:
    yield f"It needs {_libraries(imports)}."
    yield from _on_file(training)
    if run.environment is not None:
        device, version = sentence_of(run.environment.device_name), sentence_of(run.environment.torch)
        yield f"The run was made on {device} with torch {version}."
    yield from _on_data(training)
    yield from _on_recipe(training)
    differs = training.was_sharded or "losses differ" in " ".join(left_out)
    is_the_runs = run.environment is not None and not differs
    if is_the_runs and training.experiment.device == "cpu" and not training.parts:
        threads = "as many threads (OMP_NUM_THREADS)" if training.several else "as many threads"
        yield f"On that processor, with {threads}, its losses are the run's to the last bit."
    if left_out:
        yield f"Left out to keep it short: {', '.join(left_out)}."
    if training.several:
        yield f"It trains on {training.experiment.devices} devices, with a process on each; start it by"


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
    held, them = (f"{name} and the modules beside it", "them") if own.beside else (name, "it")
    yield f"It holds {held} as the run kept {them}; paths in {them} begin where it is run."
    if own.has("dataset") and training.data.own is not None and training.experiment.data.workers:
        yield "The run loaded its samples in processes of their own; here it loads them itself."


_DATA: dict[str, str] = {
    "npz": "--data is its pictures, the .npz file that was saved with it.",
    **dict.fromkeys(DOWNLOADED, "--data is the folder that its pictures are downloaded to."),
    "folder": (
        "--data is a folder with a subfolder of pictures for each class, or with such in train/ and val/;"
        " none hidden or empty, 8 bits per colour."
    ),
    "arrays": "--data is the file with its arrays; all of it is held on the device.",
    "texts": "--data is the folder with its text.",
    "text": "It trains on the source of the Python that runs it; another version has another text.",
}


def _on_data(training: TrainingFacts) -> Iterator[str]:
    data, settings = training.data, training.experiment.data
    if data.known.reader in _DATA:
        yield _DATA[data.known.reader]
    if data.form == "memory" and data.known.colours and settings.on_device is False:
        yield "The run loaded its pictures batch by batch; here they are on the device, in the same order."
    if data.form == "loaded" and settings.on_device:
        yield "The run kept its pictures on the device; here they are made anew for each epoch."


def _on_recipe(training: TrainingFacts) -> Iterator[str]:
    if "capture" in training.parts:
        yield "The run's steps were captured in a CUDA graph; here they are not: slower, same numbers."
    if training.was_sharded:
        yield "FSDP2 sharded the run's model; here each device keeps all of it, and losses differ a little."
    cap = training.experiment.memory_cap_gib
    if cap is not None and training.cap_gib is None:
        yield f"The run could use {cap:g} GiB of memory; here there is no such limit."


def shortened(experiment: Experiment) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """The experiment with more and more parts left out, and their names; first those that change no loss."""
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
        "the parts kept in FP32 (so losses differ)",
        lambda run: {"step": _without(run.step, fp32_modules=())} if run.precision.is_autocast else {},
    ),
    ("the augmentation (so losses differ)", lambda run: {"data": _without(run.data, augment=False)}),
)


MOST_LINES = 119
_RANKS_LINES = 45  # what several devices need may come to so many more
Style = Literal["airy", "dense", "terse"]  # with blank lines and docstrings, docstrings only, or neither
_STYLES: tuple[Style, ...] = get_args(Style)
_DOCSTRINGS = re.compile(r'^ +""".*"""\n\n?', re.MULTILINE)
_COMMENTS = re.compile(r"^ +#.*\n", re.MULTILINE)


def script_of(run: RunRecord, steps_per_epoch: int | None = None) -> str:
    """The source of a program that trains what the run trained, and prints the loss of each step.

    It has fewer than 120 lines, for several devices than 165. `steps_per_epoch`, known once a run has
    started, matters for a few learning rates. Raises ProblemError for a model, a dataset or such a rate that
    no script can be written for.
    """
    for experiment, left_out in ((run.experiment, ()), *shortened(run.experiment)):
        data = data_facts(experiment)
        sizes = {"channels": data.known.channels, "classes": data.classes, "image_size": data.size}
        model = model_facts(experiment, **sizes)
        facts = TrainingFacts(experiment, model, data, parts_in_force(run), steps_per_epoch)
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
        body = f"\n{in_place(own, body)}"
    return f"{head_of(run, facts, imports, left_out)}\n\n{imports}\n\n{body.rstrip()}\n"


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
    """Writes the script of a single run, and beside it the pictures if they come with the program.

    Raises ProblemError for several runs, or one that no script can be written for.
    """
    if len(content.runs) != 1:
        message = f"A script is made from one run, and these are {len(content.runs):,}."
        raise request_error(message, "Choose one of them.", key="run")
    (run,) = content.runs
    started = content.started(run.id)
    text = script_of(run, None if started is None else started.steps_per_epoch)
    path.write_text(text, encoding="utf-8", newline="\n")
    data = built_in_data(run)
    if data is not None:
        path.with_suffix(".npz").write_bytes(data)


def built_in_data(run: RunRecord) -> bytes | None:
    """The pictures that come with the program, as .npz with their licence; None if the run used others."""
    if run.experiment.dataset != "fashion":
        return None
    folder = files("resources") / "fashion"
    packed = io.BytesIO((folder / "fashion.npz").read_bytes())
    with zipfile.ZipFile(packed, "a") as archive:
        # with a fixed date, so that the same pictures are the same file
        archive.writestr(zipfile.ZipInfo("LICENSE"), (folder / "LICENSE").read_bytes())
    return packed.getvalue()
