"""Scripts train what their runs trained: the same losses, to the last bit."""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import re
import runpy
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from PIL import Image
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torchvision.datasets import CIFAR100

from engine.experiment.built_in import LANGUAGE_SIZES
from engine.experiment.experiment import Experiment, Precision, layered
from engine.experiment.own.code import with_code
from engine.experiment.paths import datasets_folder
from engine.experiment.presets import preset
from engine.export.script.page import write_run_script
from engine.protocol.events import Epoch, Finished, Samples, Started
from engine.protocol.jobs import Control, Train
from engine.store.record import RunRecord
from engine.training.models.recompute import Offload
from engine.training.precision import float32_mode
from engine.training.runs.loop import train
from engine.worker.perform import perform
from tests.records import record_of

SHORT: dict[str, Any] = {"device": "cpu", "measure": {"warmup_steps": 0}}
FASHION: dict[str, Any] = {"batch_size": 8, "steps": 3, "validation": {"limit": 20}}
FAKE: dict[str, Any] = {
    "dataset": "fakedata",
    "image_size": 8,
    "batch_size": 900,
    "validation": {"limit": 70},
}
TURNS: dict[str, Any] = {
    "dataset": "synthetic",
    "image_size": 8,
    "num_classes": 4,
    "samples": 18,
    "batch_size": 4,
}
TOKENS: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "synthetic-tokens",
    "num_classes": 300,
    "sequence_length": 16,
    "samples": 7,
    "batch_size": 2,
    "steps": 3,
}


@dataclass(frozen=True)
class Course:
    """The loss of each step, and the loss of each validation with its accuracy, if it has one."""

    losses: list[float]
    validations: list[tuple[float, float | None]]


def trained_here(settings: dict[str, Any]) -> tuple[RunRecord, int, Course]:
    """A run as the store would have it, its steps per epoch, and how it went."""
    experiment = Experiment.model_validate(layered(SHORT, settings))
    control = Control()
    trains_alone = experiment.devices == 1
    going = train(experiment, control) if trains_alone else perform(Train(experiment=experiment), control)
    events = list(going)
    started, finished = events[0], events[-1]
    assert isinstance(started, Started) and isinstance(finished, Finished), finished
    record = record_of(1, started.experiment, environment=started.environment)
    run = replace(record, summary=finished.summary, total_steps=started.total_steps)
    losses = [loss for event in events if isinstance(event, Samples) for loss in event.loss]
    validations = [
        (event.validation_loss, event.validation_accuracy)
        for event in events
        if isinstance(event, Epoch) and event.validation_loss is not None
    ]
    assert losses
    return run, started.steps_per_epoch, Course(losses, validations)


def performed(path: Path, *arguments: str) -> Course:
    """What a script prints when this process runs it, which then forgets the modules next to it."""
    printed, before = io.StringIO(), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch, float32_mode(Precision.FP32):
        patch.setattr(sys, "argv", [path.name, *arguments])
        patch.syspath_prepend(str(path.parent))
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(path.parent)):
            del sys.modules[name]
    return told(printed.getvalue())


def told(printed: str) -> Course:
    losses = re.findall(r"^step \d+: loss (\S+)$", printed, re.MULTILINE)
    found = re.findall(r"^epoch \d+: validation loss ([^,\s]+)(?:, accuracy (\S+))?$", printed, re.MULTILINE)
    validations = [(float(loss), float(share) if share else None) for loss, share in found]
    return Course([float(loss) for loss in losses], validations)


def written(run: RunRecord, steps_per_epoch: int, folder: Path) -> Path:
    """The run's script, with the files that come with it."""
    path = folder / "script" / "train.py"
    path.parent.mkdir()
    write_run_script(run, steps_per_epoch, path)
    return path


def check_course(settings: dict[str, Any], folder: Path, *arguments: str) -> Path:
    """Trains a run and its script, whose losses must be the same to the last bit, and gives the script."""
    run, steps_per_epoch, course = trained_here(settings)
    path = written(run, steps_per_epoch, folder)
    assert performed(path, *arguments) == course
    return path


SMALL = "hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32"
# each value of each setting is in one of them
CASES: dict[str, dict[str, Any]] = {
    "FP16 with a scaler that skips, clipped, parts in FP32, resized, augmented": {
        **FASHION,
        "image_size": 12,
        "precision": "fp16",
        "scaler": {"init_scale": 2.0**30, "backoff_factor": 0.25, "growth_interval": 2},
        "step": {"clip_norm": 0.5, "fp32_modules": ["features.0", "class*"]},
        "data": {"augment": True},
    },
    "pure BF16, a language model, clipped": {
        **TOKENS,
        "precision": "bf16-pure",
        "steps": 2,
        "step": {"clip_norm": 0.5},
    },
    "PyTorch's default, numbers": {
        "model": "linear",
        "dataset": "synthetic-regression",
        "samples": 20,
        "batch_size": 8,
        "epochs": 3,
        "precision": "default",
    },
    "loaded and augmented, validated seldom, accumulated, one cycle": {
        **FAKE,
        "steps": 4,
        "data": {"augment": True, "on_device": True},
        "validation": {"every": 2, "limit": 30},
        "label_smoothing": 0.1,
        "schedule": {"name": "one-cycle"},
        "step": {"gradient_accumulation": 2},
    },
    "a model of timm, recomputed, half a cosine after a warm-up, Adam": {
        **TURNS,
        "model": "timm:test_vit",
        "image_size": 32,
        "steps": 4,
        "optimizer": {"name": "adam", "weight_decay": 0.01},
        "schedule": {"name": "cosine", "warmup_steps": 1, "final_fraction": 0.3},
        "step": {"activation_checkpointing": True, "attention": "math"},
    },
    "fused, channels last, recomputed, decays every second epoch after a warm-up": {
        **TURNS,
        "epochs": 5,
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "schedule": {"name": "step", "decay_epochs": 2, "warmup_steps": 2},
        "step": {"recipe": "channels_last+fused", "activation_checkpointing": True},
    },
    "text, recomputed, accumulated and clipped": {
        **TOKENS,
        "dataset": "python-source",
        "num_classes": None,
        "validation": {"limit": 3},
        "step": {"activation_checkpointing": True, "gradient_accumulation": 2, "clip_norm": 1.0},
    },
    "FP16 unscaled, a model of timm, of one color, with dropout, half a cosine": {
        **FASHION,
        "model": "timm:test_resnet",
        "overrides": "drop_rate=0.1",
        "precision": "fp16-unscaled",
        "steps": 2,
        "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 0.01},
        "schedule": {"name": "cosine"},
        "step": {"recipe": "channels_last"},
    },
    "an encoder of transformers as a decoder, recomputed, in BF16, layers in FP32": {
        **TOKENS,
        "model": "hf:bert",
        "overrides": SMALL,
        "precision": "bf16",
        "step": {"activation_checkpointing": True, "fp32_modules": ["bert.encoder.layer"]},
    },
    "Muon with a scaler that skips, clipped, a warm-up alone": {
        **TOKENS,
        "precision": "fp16",
        "steps": 6,
        "optimizer": {"name": "muon", "weight_decay": 0.1},
        "schedule": {"warmup_steps": 2},
        # of six steps, it skips some
        "scaler": {"init_scale": 2.0**20, "growth_interval": 2},
        "step": {"clip_norm": 0.5},
    },
    "images for a type of transformers, a warm-up alone": {
        **TURNS,
        "model": "hf:vit",
        "image_size": 32,
        "steps": 3,
        "schedule": {"warmup_steps": 2},
        "overrides": SMALL,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "adamw-4bit"])
def test_torchaos_optimizers_are_made_as_the_run_made_them(name: str, tmp_path: Path) -> None:
    settings = {
        **TURNS,
        "precision": "bf16-pure",
        "steps": 5,
        "schedule": {"name": "cosine"},
        "optimizer": {"name": name, "stochastic_rounding": True},
    }
    # compiling them takes seconds and changes nothing here
    torch.compiler.set_stance("force_eager")
    try:
        text = check_course(settings, tmp_path).read_text()
    finally:
        torch.compiler.set_stance("default")
    assert "torchao" in text and ".fill_(" in text


@pytest.mark.slow
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_its_losses_are_the_runs_to_the_last_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    text = check_course(settings, tmp_path).read_text()
    assert ("bit for bit" in " ".join(text.split())) == ("recipe" not in settings.get("step", {}))


OWN_FILES = Path(__file__).with_name("own_files")
OWN: dict[str, dict[str, Any]] = {
    "pair.py": {
        "precision": "fp16",
        "steps": 4,
        "step": {"clip_norm": 0.5},
        "schedule": {"warmup_steps": 2},
        "scaler": {"init_scale": 2.0**30},
    },
    "points.py:Net": {"precision": "bf16", "epochs": 2, "step": {"gradient_accumulation": 2}},
    "stream.py": {
        "samples": 20,
        "steps": 5,
        "schedule": {"name": "cosine"},
        "step": {"gradient_accumulation": 2},
    },
    "tokens.py:Tokens": {"precision": "fp16", "steps": 5},
    "named.py": {"steps": 5},
    "whole.py:Net": {"precision": "bf16", "steps": 5},
    "twice.py:Net": {"precision": "bf16", "steps": 3, "step": {"activation_checkpointing": "selective"}},
    "graphs.py": {"epochs": 2, "batch_size": 4, "step": {"gradient_accumulation": 2}},
    "pictures.py": {**FASHION, "label_smoothing": 0.1},
    "../../../../resources/template/my_model.py": {"steps": 2},
}


@pytest.mark.parametrize("model", OWN)
def test_of_a_models_own_file_its_losses_are_the_runs_to_the_last_bit(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the file moves the process to its folder
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    settings = {"model": str(OWN_FILES / model), "batch_size": 8, **OWN[model]}
    code = with_code(settings, names_model=True, names_dataset="pictures" in model)
    run, steps_per_epoch, course = trained_here(code)
    sys.modules.pop("layers", None)
    path = written(run, steps_per_epoch, tmp_path)
    assert performed(path) == course
    name = Path(model.partition(":")[0]).name
    assert (path.parent / name).read_bytes() == (OWN_FILES / model.partition(":")[0]).read_bytes()


def test_what_a_dataclass_or_a_mapping_holds_reaches_the_scripts_device(tmp_path: Path) -> None:
    settings = {"model": str(OWN_FILES / "named.py"), "batch_size": 8, "steps": 2}
    run, steps_per_epoch, _ = trained_here(with_code(settings, names_model=True, names_dataset=False))
    path = written(run, steps_per_epoch, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))
        script = runpy.run_path(str(path))
    sys.modules.pop("named", None)
    placed = script["placed"]
    placed.__globals__["DEVICE"] = torch.device("meta")  # of a device other than the host
    inputs, targets = placed(script["collate"](list(script["dataset"]())))
    assert [part.device.type for part in (inputs.where, inputs["more"]["noise"], targets)] == ["meta"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("model", ["densenet121"])
def test_recomputed_blocks_leave_each_loss_and_the_running_means_as_they_are(
    model: str, tmp_path: Path
) -> None:
    settings = {**FAKE, "model": model, "image_size": 32, "batch_size": 2, "steps": 2}
    step = {"activation_checkpointing": True}
    run, steps_per_epoch, course = trained_here({**settings, "validation": {"limit": 4}, "step": step})
    found = performed(written(run, steps_per_epoch, tmp_path))
    assert found.losses == course.losses
    assert found.validations == [pytest.approx(validation, rel=1e-4) for validation in course.validations]


@pytest.mark.slow
def test_a_script_offloads_what_selective_checkpointing_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, steps_per_epoch, course = trained_here({**TOKENS, "step": {"activation_checkpointing": "selective"}})
    # a run offloads on GPUs only, and a script on any device
    step = run.experiment.step.model_copy(update={"offload_activations": True})
    run = replace(run, experiment=run.experiment.model_copy(update={"step": step}))
    widths: list[torch.Size] = []

    class Watched(saved_tensors_hooks):
        def __init__(self, pack: Any, unpack: Any) -> None:
            super().__init__(lambda tensor: (widths.append(tensor.shape[-1:]), pack(tensor))[1], unpack)

    monkeypatch.setattr(torch.autograd.graph, "saved_tensors_hooks", Watched)
    assert performed(written(run, steps_per_epoch, tmp_path)) == course
    shape = LANGUAGE_SIZES["causal-lm-tiny"]
    # no input of a block is as wide as the two matmuls of its feed-forward part
    assert widths.count((shape.intermediate_size,)) == 2 * shape.num_hidden_layers * TOKENS["steps"]


@pytest.mark.parametrize(("device", "is_pinned"), [("cuda", True), ("xpu", True), ("mps", False)])
def test_a_script_offloads_what_a_run_offloads(
    device: str, is_pinned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment.model_validate({**TOKENS, "step": {"offload_activations": True}})
    offloaded = runpy.run_path(str(written(record_of(1, experiment), 4, tmp_path)))["offloaded"]
    offloaded.__globals__["DEVICE"] = torch.device(device)
    monkeypatch.setattr("engine.training.models.recompute._PINNED_FOR", ("cpu",) if is_pinned else ())
    moved: list[tuple[Any, ...]] = []

    def watched(tensor: torch.Tensor, *, pin_memory: bool, device: str) -> torch.Tensor:
        moved.append((tensor.shape, tensor.dtype, pin_memory))
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)

    monkeypatch.setattr(torch, "empty_like", watched)
    model = nn.Sequential(nn.Linear(48, 64), nn.Unflatten(1, (4, 16)), nn.Conv1d(4, 64, 7))
    inputs, found = torch.randn(32, 48), []
    for context in (Offload(model), offloaded(model)):
        model.zero_grad()
        with context, torch.autocast("cpu", dtype=torch.bfloat16):
            model(inputs).sum().backward()
        found.append(([*moved], [weight.grad.tolist() for weight in model.parameters()]))
        moved.clear()
    assert found[0] == found[1]
    # the inputs of both layers, and no weight
    assert [(*shape, pinned) for shape, _, pinned in found[1][0]] == [
        (32, 48, is_pinned),
        (32, 4, 16, is_pinned),
    ]


def write_cifar100(monkeypatch: pytest.MonkeyPatch, samples: int) -> None:
    """A small set in the place of the downloaded one."""
    folder = datasets_folder() / CIFAR100.base_folder
    folder.mkdir(parents=True)
    pictures = np.random.default_rng(0).integers(0, 256, (samples, 3 * 32 * 32), np.uint8)
    part = {"data": pictures, "fine_labels": [number % 100 for number in range(samples)]}
    names = {"fine_label_names": [str(number) for number in range(100)]}
    sums = {}
    for name, content in (("train", part), ("test", part), ("meta", names)):
        packed = pickle.dumps(content)
        (folder / name).write_bytes(packed)
        sums[name] = hashlib.md5(packed, usedforsecurity=False).hexdigest()
    monkeypatch.setattr(CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": sums["meta"]})


CUTS: dict[str, dict[str, Any]] = {
    "cifar100-resnet": {"steps": 2},
    "causal-lm": {"steps": 1, "sequence_length": 32},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CUTS)
def test_a_presets_script_trains_what_the_preset_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: tuple[str, ...] = ()
    if name == "cifar100-resnet":
        write_cifar100(monkeypatch, samples=40)
        arguments = ("--data", str(datasets_folder()))
    (_, experiment), *_ = reversed(preset(name).experiments(False))
    cut = layered(CUTS[name], {"validation": {"limit": 10}})
    check_course(layered(experiment.model_dump(mode="json"), cut), tmp_path, *arguments)


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({}, ("train", "val")),
        ({"augment": True}, ("",)),
        ({"augment": True, "on_device": True}, ("train", "val")),
    ],
)
def test_a_folder_of_pictures_is_read_as_the_run_read_it(
    data: dict[str, bool], parts: tuple[str, ...], tmp_path: Path
) -> None:
    shades = iter(np.random.default_rng(0).integers(0, 256, (48, 3), np.uint8).tolist())
    for folder in (tmp_path / "pictures" / part / kind for part in parts for kind in ("cats", "dogs")):
        folder.mkdir(parents=True)
        for number in range(12):
            picture = Image.new("RGB", (24, 20), tuple(next(shades)))
            picture.paste((0, 0, 0), (0, 0, number, 10))
            picture.save(folder / f"{number}.png")
    path = str(tmp_path / "pictures")
    settings: dict[str, Any] = {"dataset": "image-folder", "path": path, "image_size": 16}
    settings |= {"batch_size": 5, "epochs": 2, "data": data}
    check_course(settings, tmp_path, "--data", path)


def test_a_downloaded_set_in_one_colour_is_read_as_the_run_read_it(tmp_path: Path) -> None:
    raw = datasets_folder() / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    pictures = np.random.default_rng(0).integers(0, 256, 6 * 28 * 28, np.uint8).tobytes()
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 6, 28, 28) + pictures)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 6) + bytes(range(6)))
    settings = {"dataset": "fashion-mnist", "batch_size": 4, "steps": 3, "data": {"augment": True}}
    check_course(settings, tmp_path, "--data", str(datasets_folder()))


DRAWN = np.random.default_rng(0)
BYTES, ROWS = DRAWN.integers(0, 256, (40, 9, 10), np.uint8), DRAWN.standard_normal((40, 5))
ARRAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bytes": ("a.npz", {"x": BYTES, "y": np.arange(40) % 3}, {"data": {"augment": True}}),
    "floats with their own validation": (
        "a.safetensors",
        {
            "train_images": DRAWN.standard_normal((20, 3, 32, 32)),
            "train_labels": np.arange(20) % 2,
            "val_images": DRAWN.standard_normal((8, 3, 32, 32)),
            "val_labels": np.arange(8) % 2,
        },
        {"model": "squeezenet1_1", "image_size": 34, "steps": 2},
    ),
    "rows": ("x.npy", {"x": ROWS, "y": ROWS[:, :2]}, {"model": "linear"}),
    "a table": ("a.parquet", {"a": ROWS[:, 0], "b": np.arange(40), "y": ROWS[:, 1]}, {"model": "linear"}),
    "tokens": ("x.npy", {"x": np.arange(360).reshape(40, 9) % 77}, {"model": "causal-lm-tiny", "steps": 2}),
}


@pytest.mark.parametrize(("name", "arrays", "settings"), ARRAYS.values(), ids=ARRAYS)
def test_a_file_of_arrays_is_read_as_the_run_read_it(
    name: str, arrays: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / name
    if path.suffix == ".parquet":
        pd.DataFrame(arrays).to_parquet(path)
    elif path.suffix == ".safetensors":
        safetensors.numpy.save_file(arrays, path)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        for part, array in arrays.items():
            np.save(tmp_path / f"{part}.npy", array)
    settings = {"dataset": "arrays", "path": str(path), "batch_size": 7, "epochs": 2} | settings
    if "steps" in settings:
        del settings["epochs"]
    check_course(settings, tmp_path, "--data", str(path))


@pytest.mark.parametrize("files", [3, 12])
def test_a_folder_of_text_is_read_as_the_run_read_it(files: int, tmp_path: Path) -> None:
    folder = tmp_path / "text" / "inner" / ".hidden"
    folder.mkdir(parents=True)
    for number in range(files):
        folder.parents[number % 2].joinpath(f"{number}.md").write_text(f"{number} äöü " * (20 + number))
    folder.joinpath("h.txt").write_text("hidden " * 40)
    folder.parent.joinpath("p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    path = str(tmp_path / "text")
    settings = {"model": "causal-lm-tiny", "dataset": "text-folder", "path": path, "sequence_length": 16}
    check_course({**settings, "samples": 6, "batch_size": 3, "steps": 2}, tmp_path, "--data", path)
