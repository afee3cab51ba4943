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
from typing import Literal, get_args

from jinja2 import Environment, FunctionLoader, StrictUndefined

from engine import __version__
from engine.experiment.experiment import Checkpoint, Experiment
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.settings import RecipePart
from engine.export.content import Content
from engine.export.script.data import data_argument, data_facts, loading_lines
from engine.export.script.model import model_facts
from engine.export.script.own import imports_of, in_place, literal, merged_imports, sentence_of
from engine.export.script.training import TrainingFacts, parts_in_force
from engine.store.record import RunRecord
from engine.words.names import listed

_WIDTH = 100
_LIBRARIES = ("torch", "torchvision", "transformers", "timm", "pyarrow", "safetensors", "numpy")


def head_of(run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]) -> str:
    """The docstring, a paragraph of sentences; `left_out` names the parts left out."""
    precision = training.experiment.precision.label
    made = run.environment.ammeter if run.environment is not None else __version__
    title = f"{sentence_of(run.name)}: {precision}, as Ammeter {sentence_of(made)} trained it."
    text = " ".join(_sentences(run, training, imports, left_out))
    # breaking a word might break an escape
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
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
    is_the_runs = run.environment is not None and "losses differ" not in " ".join(left_out)
    if is_the_runs and training.experiment.device == "cpu" and not training.parts:
        yield "On that processor, with as many threads, its losses are the run's to the last bit."
    if left_out:
        yield f"Left out to keep it short: {', '.join(left_out)}."


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


def _on_data(training: TrainingFacts) -> Iterator[str]:
    match training.data.known.reader:
        case "npz":
            yield "--data is its pictures, the .npz file that was saved with it."
        case "MNIST" | "FashionMNIST" | "CIFAR10" | "CIFAR100":
            yield "--data is the folder that its pictures are downloaded to."
        case "folder":
            yield "--data is a folder with a subfolder of pictures for each class, or with such in train/ and"
            yield "val/; none hidden or empty, 8 bits per colour."
        case "arrays":
            yield "--data is the file with its arrays; all of it is held on the device."
        case "texts":
            yield "--data is the folder with its text."
        case "text":
            yield "It trains on the source of the Python that runs it; another version has another text."
    settings = training.experiment.data
    if training.data.form == "memory" and training.data.known.colours and settings.on_device is False:
        yield "The run loaded its pictures batch by batch; here they are on the device, in the same order."
    if training.data.form == "loaded" and settings.on_device:
        yield "The run kept its pictures on the device; here they are made anew for each epoch."


def _on_recipe(training: TrainingFacts) -> Iterator[str]:
    if "capture" in training.parts:
        yield "The run's steps were captured in a CUDA graph; here they are not: slower, same numbers."
    cap = training.experiment.memory_cap_gib
    if cap is not None and training.cap_gib is None:
        yield f"The run could use {cap:g} GiB of memory; here there is no such limit."


def shortened(experiment: Experiment) -> Iterator[tuple[Experiment, tuple[str, ...]]]:
    """The experiment with more and more parts left out, and their names; first those that change no loss."""
    left_out: tuple[str, ...] = ()
    for shorten, part in _WAYS:
        shorter = shorten(experiment)
        if shorter != experiment:
            experiment, left_out = shorter, (*left_out, part)
            yield experiment, left_out


def _without_checkpoints(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"checkpoint": Checkpoint()})


def _without_nan_check(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"on_nan": "continue"})


def _without_memory_cap(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"memory_cap_gib": None})


def _without_recomputing(experiment: Experiment) -> Experiment:
    step = experiment.step.model_copy(update={"activation_checkpointing": False})
    return experiment.model_copy(update={"step": step})


def _without_validation(experiment: Experiment) -> Experiment:
    if not data_facts(experiment).validates:
        return experiment
    validation = experiment.validation.model_copy(update={"every": 0})
    return experiment.model_copy(update={"validation": validation})


def _without_float32_modules(experiment: Experiment) -> Experiment:
    if not experiment.precision.is_autocast:
        return experiment
    return experiment.model_copy(update={"step": experiment.step.model_copy(update={"fp32_modules": ()})})


def _without_augmenting(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"data": experiment.data.model_copy(update={"augment": False})})


_WAYS: tuple[tuple[Callable[[Experiment], Experiment], str], ...] = (
    (_without_checkpoints, "its checkpoints"),
    (_without_nan_check, "its stop at NaN"),
    (_without_memory_cap, "its memory cap"),
    (_without_recomputing, "activation checkpointing"),
    (_without_validation, "its validation"),
    (_without_float32_modules, "the parts kept in FP32 (so losses differ)"),
    (_without_augmenting, "the augmentation (so losses differ)"),
)


MOST_LINES = 119
Style = Literal["airy", "dense", "terse"]
"""With blank lines and docstrings, with docstrings only, with neither."""
_STYLES: tuple[Style, ...] = get_args(Style)
_DOCSTRINGS = re.compile(r'^ +""".*"""\n\n?', re.MULTILINE)
_COMMENTS = re.compile(r"^ +#.*\n", re.MULTILINE)


def script_of(run: RunRecord, steps_per_epoch: int | None = None) -> str:
    """The source of a program that trains what the run trained, and prints the loss of each step.

    It has fewer than 120 lines; its docstring names the parts left out for that. `steps_per_epoch`, known
    once a run has started, matters for a few learning rates. Raises ProblemError for a model or dataset that
    this version does not know, and for such a learning rate of a run that has not started.
    """
    for experiment, left_out in ((run.experiment, ()), *shortened(run.experiment)):
        facts = _facts(experiment, parts_in_force(run), steps_per_epoch)
        for style in _STYLES:
            body = _body(facts, style)
            text = _rendered(run, facts, body, left_out)
            if _counted(text, facts) <= MOST_LINES:
                return text
    # so many parts at once are rare: the code has to speak for itself
    return _rendered(run, facts, _COMMENTS.sub("", body), left_out)


def _counted(text: str, facts: TrainingFacts) -> int:
    return text.count("\n") if facts.own is None else text.rpartition(_TRAINING)[2].count("\n")


_TRAINING = "# how the run trained it"


def _facts(
    experiment: Experiment, parts: tuple[RecipePart, ...], steps_per_epoch: int | None
) -> TrainingFacts:
    data = data_facts(experiment)
    model = model_facts(experiment, channels=data.known.channels, classes=data.classes, image_size=data.size)
    return TrainingFacts(experiment, model, data, parts, steps_per_epoch)


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
        raise ProblemError(request_problem(message, "Choose one of them.", key="run"))
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
