"""Models of timm and transformers: their names, read from the sources, and helpers to build them.

Importing a library takes seconds, listing names does not. Nothing is downloaded: weights are random.
"""

from __future__ import annotations

import ast
import importlib
import logging
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn

from engine.experiment.checks import ModelEntry, Task
from engine.experiment.experiment import setting_problem
from engine.experiment.own.library_models import TRANSFORMERS
from engine.experiment.problem import Problem, ProblemError, request_error
from engine.experiment.value import BYTES_PER_GIB, shortened
from engine.lazy_imports import without
from engine.training.models.weightless import Weightless

_OFFLINE = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "TRANSFORMERS_OFFLINE")
_FLOAT32_BYTES = 4
_LONGEST_REASON = 160
_SAYS_NOTHING, _CLASS_NAME = re.compile(r":\s*$|^\s*$"), re.compile(r"^\w+Error: ")


def import_library(package: str) -> Any:
    """Import a library without network access. The first import takes seconds. Raises ProblemError."""
    for name, value in (*((name, "1") for name in _OFFLINE), ("TRANSFORMERS_VERBOSITY", "error")):
        os.environ.setdefault(name, value)
    try:
        # transformers would import torchao for weights that are stored in its formats, of which none is made
        with quiet(), without("torchao"):
            library = importlib.import_module(package)
            if package == TRANSFORMERS.package:
                # all of its models need it, and it imports torchao where that is found
                importlib.import_module(f"{package}.modeling_utils")
            return library
    except ImportError as error:
        message = f"The model needs {package}, which cannot be imported here: {error}."
        remedy = f"Install {package} again, or choose another model."
        raise request_error(message, remedy, key="model") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and torch's messages on a library's own code, which users cannot act on."""
    remarks = logging.getLogger("torch.utils._pytree")
    before, remarks.disabled = remarks.disabled, True
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        remarks.disabled = before


def check_host_memory(name: str, parameters: int) -> None:
    """Raise ProblemError if `parameters` float32 weights do not fit into system memory."""
    needed = _FLOAT32_BYTES * parameters / BYTES_PER_GIB
    free = psutil.virtual_memory().available / BYTES_PER_GIB
    if needed > free:
        takes = f"That takes {needed:.1f} GiB, but only {free:.1f} GiB are free"
        message = f"model is '{name}', whose weights are first created in system memory. {takes}."
        raise request_error(message, "Choose a smaller model, or free some memory.", key="model", value=name)


def build_with_weights(name: str, construct: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Build a model with weights by the seed. Reseeds torch's generator. Raises ProblemError."""
    parameters = 0
    # a constructor that reads its own weights cannot be counted so; the real one shows what is wrong
    with suppress(Exception), Weightless():
        parameters = sum(parameter.numel() for parameter in construct().parameters())
    check_host_memory(name, parameters)
    torch.manual_seed(seed)
    return construct()


def probe_outputs(model: nn.Module, inputs: torch.Tensor) -> Any:
    """Return the model's outputs for a small batch, None without weights. Random numbers do not change."""
    if any(parameter.is_meta for parameter in model.parameters()):
        return None
    with torch.random.fork_rng(devices=[]), torch.no_grad(), quiet():
        was_training = model.training
        model.eval()
        try:
            return model(inputs)
        finally:
            model.train(was_training)


def library_reason(error: Exception) -> str:
    """Return a library's error as the end of a sentence. Raises the error itself if memory ran out."""
    if isinstance(error, ProblemError) or is_out_of_memory(error):
        raise error
    lines = [line.strip() for line in str(error).splitlines() if not _SAYS_NOTHING.search(line)]
    text = _CLASS_NAME.sub("", lines[0]) if lines else type(error).__name__
    return shortened(text, _LONGEST_REASON).rstrip(".")


def override_problem(override: str, message: str, remedy: str) -> Problem:
    """Return the problem of a model's setting. `message` continues "Model settings has 'a=1', "."""
    return setting_problem("overrides", f"has '{shortened(override)}', {message}", remedy, value=override)


def unsafe_value_problem(override: str) -> Problem:
    """Return the problem of a value that could name a file, a repository or code."""
    message = "but a value can only have numbers, true, false, null, or words known to Ammeter, such as gelu."
    return override_problem(override, message, "Change or remove it.")


def refusal(name: str, overrides: Sequence[str], reason: str, remedy: str) -> Problem:
    """Return the problem of a model that cannot be trained here, with the reason that its library gives."""
    if overrides:
        message = f"with which {name} cannot be trained here: {reason}."
        return override_problem(", ".join(overrides), message, "Change or remove them.")
    message = f"is '{name}', which cannot be trained here: {reason}."
    return setting_problem("model", message, remedy, value=name)


_REGISTERED = re.compile(r"^@register_model\b.*\n(?:[@#].*\n)*def (\w+)\(", re.MULTILINE)
_AUTO_CLASSES = "models/auto/modeling_auto.py"

CAUSAL, IMAGE = "CAUSAL_LM", "IMAGE_CLASSIFICATION"
SEQUENCE, AUDIO = "SEQUENCE_CLASSIFICATION", "AUDIO_CLASSIFICATION"
HEADS: Mapping[str, Task] = {CAUSAL: "language", IMAGE: "classification", SEQUENCE: "own", AUDIO: "own"}
"""The heads by transformers' own names. A model type is built with the first one that it has."""


def library_entries() -> tuple[ModelEntry, ...]:
    """Return all models of the installed libraries, without parameter counts."""
    return _entries(_folder("timm"), _folder("transformers"))


# read once: every run looks for its model here
@cache
def _entries(timm: Path | None, transformers: Path | None) -> tuple[ModelEntry, ...]:
    paths = [] if timm is None else (timm / "models").rglob("*.py")
    names = {name for path in paths for name in _REGISTERED.findall(path.read_text(encoding="utf-8"))}
    return (
        *(ModelEntry(name=f"timm:{name}", task="classification", family="timm") for name in sorted(names)),
        *(
            ModelEntry(name=f"hf:{name}", task=HEADS[head], family="transformers")
            for name, head in sorted(_heads(transformers).items())
        ),
    )


def heads_by_type() -> Mapping[str, str]:
    """Return the head of each of transformers' types that can be trained here. Empty without the library."""
    return _heads(_folder("transformers"))


@cache
def _heads(folder: Path | None) -> Mapping[str, str]:
    if folder is None:
        return {}
    # the first names in these ordered dictionaries
    tables = {f"MODEL_FOR_{head}_MAPPING_NAMES": head for head in HEADS}
    by_head: dict[str, list[str]] = {}
    for statement in ast.parse((folder / _AUTO_CLASSES).read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[pairs])) if name in tables:
                by_head[tables[name]] = [key for key, _ in ast.literal_eval(pairs)]
    heads: dict[str, str] = {}
    for head in HEADS:
        for name in by_head.get(head, ()):
            heads.setdefault(name, head)
    return heads


def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


# On a CPU under a cap each library of a step has its own message for running out; on CUDA cuBLAS and cuDNN
# have statuses of their own for what they allocate beside PyTorch.
_OUT_OF_MEMORY = re.compile(
    r"out[ _]of[ _]((device|host)[ _])?memory|can't allocate memory|cannot allocate memory"
    r"|not enough memory|bad_alloc"
    r"|could not create a primitive|could not create a memory|ALLOC(ATION)?_FAILED",
    re.IGNORECASE,
)


# Said of many causes: of these only a full device is out of memory. NCCL allocates beside PyTorch at first
# use, and so do the libraries whose handles are created then.
_PERHAPS_OUT_OF_MEMORY = re.compile(
    r"Failed to CUDA (host )?[cm]?alloc|ncclUnhandledCudaError"
    r"|(CUBLAS|CUBLASLT|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS)_STATUS_NOT_INITIALIZED"
    r"|CUSOLVER_STATUS_INTERNAL_ERROR|CUFFT_INTERNAL_ERROR|CUDNN_STATUS_INTERNAL_ERROR",
    re.IGNORECASE,
)
_LITTLE_BYTES = 512 * 2**20


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory ran out, on a device or in the host."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    is_said = _OUT_OF_MEMORY.search(str(error)) is not None
    return is_said or (
        _PERHAPS_OUT_OF_MEMORY.search(str(error)) is not None and _free_bytes() < _LITTLE_BYTES
    )


def _free_bytes() -> float:
    if not torch.cuda.is_available():
        return math.inf
    with suppress(RuntimeError):
        return torch.cuda.mem_get_info()[0]
    return math.inf  # a context that an error has broken tells nothing
