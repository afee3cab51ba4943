"""An experiment that does not fit a machine is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.experiment.checks import (
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    PrecisionEntry,
    problems,
    resolve,
)
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.problem import ProblemError
from engine.experiment.value import one_line

CPU = DeviceEntry(
    name="cpu",
    title="a processor",
    memory_mib=8 * 1024,
    precisions=tuple(
        PrecisionEntry(precision=one, available=one is not Precision.TF32, reason="TF32 needs a GPU")
        for one in Precision
    ),
)
CARD = DeviceEntry(
    name="cuda:0",
    title="a card",
    memory_mib=24 * 1024,
    precisions=tuple(PrecisionEntry(precision=one, available=True) for one in Precision),
)
CATALOG = Catalog(
    devices=(CPU,),
    models=(
        ModelEntry(name="linear", task="regression", parameters=11),
        ModelEntry(name="small-cnn", task="classification", parameters=200_000, min_image_size=8),
        ModelEntry(
            name="vit_b_16",
            task="classification",
            parameters=86_000_000,
            min_image_size=16,
            image_size_multiple=16,
        ),
        ModelEntry(name="lm", task="language", parameters=9_000_000, max_sequence_length=8_192),
        ModelEntry(name="no-lm", task="language", parameters=9, reason="transformers is not installed"),
    ),
    datasets=(
        DatasetEntry(name="synthetic-regression", title="", task="regression", any_classes=False),
        DatasetEntry(
            name="fashion",
            title="",
            task="classification",
            image_size=28,
            channels=1,
            num_classes=10,
            train_samples=6_000,
            validation_samples=1_000,
            can_augment=True,
        ),
        DatasetEntry(
            name="synthetic",
            title="",
            task="classification",
            image_size=224,
            num_classes=1_000,
            any_classes=True,
        ),
        DatasetEntry(
            name="image-folder",
            title="",
            task="classification",
            image_size=224,
            channels=3,
            needs_path=True,
            can_augment=True,
            fits_device=False,
            loads=True,
        ),
        DatasetEntry(name="tokens", title="", task="language", num_classes=32_000, any_classes=True),
        DatasetEntry(name="bytes", title="", task="language", num_classes=256, validation_samples=256),
    ),
)
LM, REGRESSION = {"model": "lm", "dataset": "tokens"}, {"model": "linear", "dataset": "synthetic-regression"}
FOLDER = {"dataset": "image-folder", "path": "."}
BEST, ACCUMULATION = {"checkpoint": {"best": True}}, "step.gradient_accumulation"


def make(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"")


@pytest.fixture(autouse=True)
def in_a_folder_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "cats/1.png", "dogs/1.png")
    monkeypatch.chdir(tmp_path)


def test_an_experiment_that_fits_is_resolved_to_what_it_will_be() -> None:
    resolved = resolve(Experiment(), CATALOG)
    assert (resolved.device, resolved.image_size, resolved.num_classes) == ("cpu", 28, 10)
    both = CATALOG.model_copy(update={"devices": (CARD, CPU)})
    assert resolve(Experiment(), both).device == "cuda:0"
    assert resolve(Experiment(device="cuda"), both).device == "cuda:0"
    assert resolve(Experiment(device="cpu"), both).device == "cpu"
    assert both.has_gpu and not CATALOG.has_gpu


def test_of_a_script_only_its_folder_is_checked(tmp_path: Path) -> None:
    def wrong(catalog: Catalog = CATALOG, **command: Any) -> dict[str | None, str]:
        settings = {"model": "unknown", "dataset": "unknown", "device": "cuda:7", "precision": "tf32"}
        experiment = experiment_from({**settings, "command": {"line": "python train.py", **command}})
        return {problem.key: problem.message for problem in problems(experiment, catalog)}

    assert wrong() == wrong(folder=str(tmp_path)) == {}
    assert "does not exist on this machine" in wrong(folder="/not/here")["command.folder"]
    assert wrong(CATALOG.model_copy(update={"machine": "far"}), folder="/not/here") == {}
    assert "was not opened" in wrong(folder="//far/share")["command.folder"]


def cards(kind: str, count: int) -> Catalog:
    alike = (CARD.model_copy(update={"name": f"{kind}:{number}"}) for number in range(count))
    return CATALOG.model_copy(update={"devices": (*alike, CPU)})


def test_all_devices_are_those_of_its_kind_from_the_first_on() -> None:
    four = cards("cuda", 4)
    for device, count in (("auto", 4), ("cuda:0", 4), ("cuda:2", 2), ("cpu", 1)):
        assert resolve(experiment_from({"device": device, "devices": "all"}), four).devices == count


def test_what_needs_a_whole_model_is_refused_where_fsdp_shards_it() -> None:
    settings = {
        "device": "cpu",
        "devices": 2,
        "precision": "bf16",
        "ranks": {"strategy": "fsdp"},
        "optimizer": {"name": "muon"},
        "step": {"fp32_modules": ["fc"], "recipe": "compile", "activation_checkpointing": 0.5},
    }
    found = {problem.key: problem.message for problem in problems(experiment_from(settings), CATALOG)}
    keys = ("optimizer.name", "step.activation_checkpointing", "step.fp32_modules")
    assert sorted(found) == sorted(keys) and all("FSDP2" in message for message in found.values())
    assert "combine Muon with FSDP2" in found["optimizer.name"]
    assert not problems(experiment_from({**settings, "ranks": {"strategy": "ddp"}}), CATALOG)


def test_activations_are_offloaded_from_a_gpu_only() -> None:
    settings = {"step": {"offload_activations": True}}
    (problem,) = problems(experiment_from({**settings, "device": "cpu"}), CATALOG)
    assert problem.message.startswith("Offload activations is on, but on ")
    assert problem.message.endswith("activations are in system memory already.")


def test_a_step_of_the_models_file_is_refused_where_fsdp_shards_the_model(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("def model(): ...\ndef batch(size): ...\ndef step(train, batch): ...\n")
    settings = {"model": str(file), "device": "cpu", "devices": 2, "ranks": {"strategy": "fsdp"}}
    experiment = experiment_from(with_code(settings, names_model=True, names_dataset=False))
    (problem,) = [found for found in problems(experiment, CATALOG) if found.key == "ranks.strategy"]
    assert problem.message == ("Strategy is FSDP2, but net.py defines step(), which needs the full model.")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"ranks": {"static_graph": True}, "step": {"gradient_accumulation": 2}},
            "Static graph is on, but gradient accumulation is 2, and PyTorch cannot combine them.",
        ),
        (
            {"ranks": {"static_graph": True, "find_unused_parameters": True}},
            "Static graph is on, but Find unused parameters needs steps that use different parameters.",
        ),
    ],
)
def test_what_ddp_cannot_combine_is_refused_on_several_devices_only(settings: Any, words: str) -> None:
    (problem,) = problems(experiment_from({"device": "cpu", "devices": 2, **settings}), CATALOG)
    assert (problem.key, problem.message) == ("ranks.static_graph", words)
    sharded = {**settings, "ranks": {**settings["ranks"], "strategy": "fsdp"}}
    for other in ({**settings, "devices": 1}, {**sharded, "devices": 2}):
        assert not problems(experiment_from({"device": "cpu", **other}), CATALOG)


@pytest.mark.parametrize(
    ("catalog", "device", "devices", "cores", "words"),
    [
        (cards("cuda", 4), "auto", 5, 6, "Devices is 5, but starting with cuda:0, there are 4."),
        (cards("cuda", 4), "cuda:3", 2, 6, "Devices is 2, but starting with cuda:3, there is 1."),
        (
            cards("mps", 1),
            "mps",
            2,
            6,
            "synchronizes gradients only between devices of cuda and xpu.",
        ),
        (CATALOG, "cpu", 60, 6, "Devices is 60, but the CPU has 6 cores."),
        (CATALOG, "cpu", 2, 1, "Devices is 2, but the CPU has 1 core."),
    ],
)
def test_more_devices_than_there_are_is_refused(monkeypatch, catalog, device, devices, cores, words):
    monkeypatch.setattr("engine.experiment.checks.os.cpu_count", lambda: cores)
    monkeypatch.setattr("engine.experiment.checks.sys.platform", "linux")
    (problem,) = problems(Experiment(device=device, devices=devices), catalog)
    assert problem.key == "devices" and words in problem.message


def test_windows_shares_no_gradients_among_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.experiment.checks.sys.platform", "win32")
    (problem,) = problems(Experiment(devices=2), cards("cuda", 2))
    assert "has no NCCL" in problem.message and "WSL" in problem.remedy
    assert not problems(Experiment(device="cpu", devices=2), cards("cuda", 2))


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"model": "smallcnn"}, "model", "small-cnn"),
        ({"dataset": "fashon"}, "dataset", "fashion"),
        ({"device": "cuda:3"}, "device", "cpu"),
        ({"precision": "tf32"}, "precision", "fp32, default, fp16, bf16, fp16-unscaled, fp8, bf16-pure"),
        ({"memory_cap_gib": 16}, "memory_cap_gib", "at most 8.0"),
        ({"batch_size": 6_001}, "batch_size", "6,000"),
        ({"dataset": "synthetic", "samples": 32, "batch_size": 64}, "batch_size", "32"),
        ({"num_classes": 5}, "num_classes", "empty"),
        ({"model": "linear"}, "dataset", "synthetic-regression"),
        ({**REGRESSION, "image_size": 8}, "image_size", "empty"),
        ({"model": "vit_b_16"}, "image_size", "32"),
        ({"image_size": 4}, "image_size", "8"),
        ({"model": "no-lm", "dataset": "tokens"}, "model", "Install the missing package"),
        ({"model": "lm"}, "dataset", "tokens, bytes"),
        ({**LM, "dataset": "bytes", "num_classes": 300}, "num_classes", "256"),
        ({**LM, "sequence_length": 8_193}, "sequence_length", "8,192"),
        ({**LM, "image_size": 32}, "image_size", "empty"),
        ({**FOLDER, "path": "no/such/folder"}, "path", "spelling"),
        ({**FOLDER, "path": "a\0b"}, "path", "spelling"),
        ({**FOLDER, "path": "~nobody-of-that-name/x"}, "path", "spelling"),
        ({"path": "somewhere"}, "path", "image-folder"),
        ({"dataset": "image-folder"}, "path", "needs a folder of images"),
        ({**REGRESSION, "label_smoothing": 0.1}, "label_smoothing", "no labels to smooth"),
        ({"batch_size": 512, "step": {"gradient_accumulation": 13}}, ACCUMULATION, "12 batches of 512"),
        ({"batch_size": 6_000, "step": {"gradient_accumulation": 2}}, ACCUMULATION, "a single batch"),
        ({"dataset": "synthetic", "data": {"augment": True}}, "data.augment", "shifted and flipped"),
        ({**FOLDER, "data": {"on_device": True}}, "data.on_device", "too large"),
        ({**BEST, "validation": {"every": 0}}, "checkpoint.best", "validation interval is 0"),
        ({**BEST, "dataset": "synthetic"}, "checkpoint.best", "no validation samples"),
    ],
)
def test_what_does_not_fit_is_answered_with_the_key_and_what_to_do(settings, key, words):
    found = problems(experiment_from(settings), CATALOG)
    assert [problem.key for problem in found] == [key]
    assert one_line(str(settings.get(key, ""))) in found[0].message.replace(",", "")
    assert words in f"{found[0].message} {found[0].remedy} {found[0].allowed}"
    with pytest.raises(ProblemError):
        resolve(experiment_from(settings), CATALOG)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 512, "step": {"gradient_accumulation": 12}},
        {"label_smoothing": 0.1, "data": {"augment": True}, "checkpoint": {"best": True}},
        {**FOLDER, "batch_size": 100_000, "checkpoint": {"best": True}},
        {**LM, "num_classes": 100, "label_smoothing": 0.1, "checkpoint": {"last": True}},
        {"model": "lm", "dataset": "bytes", "sequence_length": 8_192, "checkpoint": {"best": True}},
        {"sequence_length": 1_000_000},
        {"precision": "fp16-unscaled"},
        {"precision": "default"},
        {"dataset": "synthetic", "data": {"workers": 4, "on_device": False}},
        {"dataset": "synthetic", "image_size": 64, "num_classes": 7},
    ],
)
def test_what_can_be_done_is_not_refused(settings: dict[str, Any]) -> None:
    assert problems(experiment_from(settings), CATALOG) == ()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for path, expected in (
        (tmp_path, []),
        (tmp_path / "file", ["path"]),
        (tmp_path / "file" / "x", ["path"]),
    ):
        experiment = experiment_from({"dataset": "image-folder", "path": str(path)})
        assert [problem.key for problem in problems(experiment, CATALOG)] == expected


def test_each_setting_is_named_once_however_much_is_wrong_with_it() -> None:
    wrong = {"model": "vit_b_16", "dataset": "bytes", "image_size": 4, "num_classes": 3, "path": "x"}
    keys = [problem.key for problem in problems(experiment_from(wrong), CATALOG)]
    assert len(keys) == len(set(keys)) and {"dataset", "image_size", "num_classes", "path"} <= set(keys)


@pytest.mark.parametrize(
    ("pattern", "is_broken"),
    [
        ("layer4.[", True), ("a[b]c[", True), ("[]", True), ("layer[34].*", False), ("[]x]?", False),
        ("layer[[]x", False),
    ],
)  # fmt: skip
def test_a_pattern_with_an_open_bracket_is_refused(pattern: str, is_broken: bool) -> None:
    found = problems(Experiment.model_validate({"step": {"fp32_modules": [pattern]}}), CATALOG)
    assert [one.key for one in found if one.key == "step.fp32_modules"] == ["step.fp32_modules"] * is_broken


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ((), "no subfolders with images"),
        (("1.png", "notes/readme.txt", ".hidden/1.png", "cats/.1.png"), "no subfolders with images"),
        (("cats/1.png", "dogs/readme.txt"), "only one class, 'cats'"),
        (("train/cats/1.png", "val/cats/1.png", "val/dogs/1.png"), "only one class, 'cats'"),
        (("cats/a/b/1.JPG", "dogs/1.webp"), None),
        (("train/cats/1.png", "train/dogs/1.png"), None),
    ],
)
def test_a_folder_without_pictures_of_two_classes_is_refused(tmp_path, files, words):
    (tmp_path / "own").mkdir()
    make(tmp_path / "own", *files)
    experiment = Experiment(dataset="image-folder", path=str(tmp_path / "own"))
    found = [one for one in problems(experiment, CATALOG) if one.key == "path"]
    assert len(found) == (words is not None)
    assert words is None or words in found[0].message


def test_a_folder_that_takes_long_to_look_through_is_left_to_the_worker(tmp_path: Path) -> None:
    make(tmp_path / "own", *(f"notes/{number}.txt" for number in range(2_100)))
    experiment = Experiment(dataset="image-folder", path=str(tmp_path / "own"))
    assert not [one for one in problems(experiment, CATALOG) if one.key == "path"]
