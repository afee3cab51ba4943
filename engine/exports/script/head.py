"""What a script says of itself before its first line of code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from engine import __version__
from engine.exports.script.literals import sentence_of
from engine.exports.script.training import TrainingFacts
from engine.records.record import RunRecord

_WIDTH = 100
_LIBRARIES = ("torch", "torchvision", "transformers", "numpy")


def head_of(run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]) -> str:
    """The docstring, a paragraph of sentences; `left_out` names what there was no room for."""
    precision = training.experiment.precision.label
    title = f"{sentence_of(run.name)}: {precision}, as Ammeter {__version__} trained it."
    told = " ".join(_told(run, training, imports, left_out))
    # a word broken in two might be a broken escape
    lines = textwrap.wrap(told, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return '"""' + "\n".join([title, "", *lines]) + '\n"""'


def _told(run: RunRecord, training: TrainingFacts, imports: str, left_out: tuple[str, ...]) -> Iterator[str]:
    yield f"It needs {_libraries(imports)}."
    if run.environment is not None:
        device, version = sentence_of(run.environment.device_name), sentence_of(run.environment.torch)
        yield f"The run was made on {device} with torch {version}."
    yield from _on_data(training)
    yield from _on_recipe(training)
    is_the_runs = run.environment is not None and "losses differ" not in " ".join(left_out)
    if is_the_runs and training.on_cpu and not training.parts:
        yield "On that processor, with as many threads, its losses are the run's to the last bit."
    if left_out:
        yield f"Left out for want of room: {', '.join(left_out)}."


def _libraries(imports: str) -> str:
    found = [name for name in _LIBRARIES if re.search(rf"^(import|from) {name}\b", imports, re.MULTILINE)]
    # torchvision and transformers bring numpy with them
    return " and ".join(found[:2])


def _on_data(training: TrainingFacts) -> Iterator[str]:
    match training.data.reader:
        case "npz":
            yield "--data is its pictures, the .npz file that was saved with it."
        case "MNIST" | "FashionMNIST" | "CIFAR10" | "CIFAR100":
            yield "--data is the folder that its pictures are downloaded to."
        case "folder":
            yield "--data is a folder with one of pictures for each class, or with train/ and val/ of such;"
            yield "none hidden or empty, 8 bits a colour."
        case "text":
            yield "It trains on the source of the Python that runs it; another version has another text."
    wanted = training.experiment.data
    if training.data.form == "memory" and training.data.colours and wanted.on_device is False:
        yield "The run loaded its pictures batch by batch; here they lie on the device, in the same order."
    if training.data.form == "loaded" and wanted.on_device:
        yield "The run kept its pictures on the device; here they are made anew for each epoch."


def _on_recipe(training: TrainingFacts) -> Iterator[str]:
    if "capture" in training.parts:
        yield "The run's steps were captured in a CUDA graph, which is left out: slower, the same numbers."
    cap = training.experiment.memory_cap_gib
    if cap is not None and training.cap_gib is None:
        yield f"The run could use {cap:g} GiB of memory; here there is no such limit."
