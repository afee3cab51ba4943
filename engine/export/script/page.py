"""A run as a Python program: its source, its docstring, and the files that it needs."""

from __future__ import annotations

import io
import re
import textwrap
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined

from engine import __version__
from engine.experiment.command import refuse
from engine.experiment.problem import request_error
from engine.export.content import Content
from engine.export.script.data import DOWNLOADED, data_argument, data_facts, loading_lines
from engine.export.script.model import model_facts
from engine.export.script.source import LIBRARIES, folded, imports_of, literal, own_facts, sentence_of
from engine.export.script.training import TrainingFacts, applied_parts
from engine.store.record import RunRecord
from engine.words.names import listed

_WIDTH = 100


def _docstring(run: RunRecord, training: TrainingFacts, imports: str) -> str:
    """Return the docstring: a title and a paragraph of sentences."""
    precision = training.experiment.precision.label
    made = run.environment.ammeter if run.environment is not None else __version__
    title = f"{sentence_of(run.name)}: {precision}, as trained by Ammeter {sentence_of(made)}."
    text = " ".join(_script_sentences(run, training, imports))
    # breaking a word might break an escape
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    if training.several:
        lines += ["", f"    torchrun --standalone --nproc-per-node {training.experiment.devices} SCRIPT.py"]
    return '"""' + "\n".join([title, "", *lines]) + '\n"""'


def _script_sentences(run: RunRecord, training: TrainingFacts, imports: str) -> Iterator[str]:
    yield f"Requires {_libraries(imports)}."
    yield from _on_file(training)
    if run.environment is not None:
        device, version = sentence_of(run.environment.device_name), sentence_of(run.environment.torch)
        yield f"The run trained on {device} with PyTorch {version}."
    yield from _on_data(training)
    yield from _on_recipe(training)
    is_the_runs = run.environment is not None and not training.was_sharded
    if is_the_runs and training.experiment.device == "cpu" and not training.parts:
        threads = "threads (OMP_NUM_THREADS)" if training.several else "threads"
        yield f"On that CPU, with the same number of {threads}, the losses equal the run's bit for bit."
    if training.several:
        yield f"It trains on {training.experiment.devices} devices, one process per device. Start it with:"


def _libraries(imports: str) -> str:
    used = [name for name in LIBRARIES if re.search(rf"^(import|from) {name}\b", imports, re.MULTILINE)]
    if "numpy" in used and {"torchvision", "transformers", "timm"} & set(used):
        used.remove("numpy")  # which they bring with them
    return listed(used)


def _on_file(training: TrainingFacts) -> Iterator[str]:
    own = training.own
    if own is None:
        return
    yield f"Its model file is {own.module}.py next to it. Relative paths start at the working directory."
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
    if "host_counters" in training.parts:
        yield "Any BatchNorm layers count their batches on the device here: slower, with the same losses."
    if training.was_sharded:
        yield "FSDP2 sharded the run's model. Here each device has all of it, and losses differ slightly."
    cap = training.experiment.memory_cap_gib
    if cap is not None and training.cap_gib is None:
        yield f"The run was limited to {cap:g} GiB of memory. This script is not."


def script_source(run: RunRecord, steps_per_epoch: int | None = None) -> str:
    """Return the source of a program that repeats the run's training and prints the loss of each step.

    It imports the user's model file, if the run has one. `steps_per_epoch`, known once a run has started,
    matters for a few learning rate schedules. Raises ProblemError if the model, dataset or schedule is not
    supported.
    """
    experiment = run.experiment
    data = data_facts(experiment)
    model = model_facts(experiment, channels=data.known.channels, classes=data.classes, image_size=data.size)
    facts = TrainingFacts(experiment, model, data, applied_parts(run), steps_per_epoch)
    own = facts.own
    body = (
        _templates()
        .get_template("script.jinja")
        .render(
            experiment=experiment,
            parts=facts.parts,
            model=model,
            data=data,
            training=facts,
            several=facts.several,
            report="report" if facts.several else "print",
            own=own,
            argument=data_argument(data),
            loading=loading_lines(data),
            unpacked="*" if data.form in ("memory", "turns") else "",
        )
    )
    body = folded(body.replace(_OWN_IMPORT, "" if own is None else own.import_lines(body)))
    imports = imports_of(body)
    gap = "\n\n" if body.startswith("def ") else "\n"
    return f"{_docstring(run, facts, imports)}\n\n{imports}\n{gap}{body.rstrip()}\n"


_OWN_IMPORT = "IMPORT_OF_THE_MODEL_FILE"  # where a script imports it


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
    """Write the script of a single run with the files that it needs.

    Raises ProblemError for several runs, or if a script is not supported for the run.
    """
    if len(content.runs) != 1:
        message = f"A script needs exactly one run, but {len(content.runs):,} were given."
        raise request_error(message, "Select one run.", key="run")
    (run,) = content.runs
    started = content.started(run.id)
    write_run_script(run, None if started is None else started.steps_per_epoch, path)


def write_run_script(run: RunRecord, steps_per_epoch: int | None, path: Path) -> None:
    """Write a run's script, and next to it the built-in images or the user's model file, if it needs them.

    Raises ProblemError if a script is not supported, or would replace its own model file.
    """
    refuse("export", [run.experiment.command])
    path.write_text(script_source(run, steps_per_epoch), encoding="utf-8", newline="\n")
    own = own_facts(run.experiment)
    for name, content in () if own is None else own.files():
        file = path.parent / name
        if name.partition("/")[0].removesuffix(".py").casefold() == path.stem.casefold():
            message = f"{path.name} is the name of the run's model file or of a module next to it."
            raise request_error(message, "Choose another name, such as train.py.", key="to", value=path.name)
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_bytes(content)
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
