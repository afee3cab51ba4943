"""The user's own arrays and text: each sample with its target, mapped or kept, and what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import torch

from engine.experiment.built_in import DATASETS
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.folders import TextCount, count_text, path_problem
from engine.experiment.problem import ProblemError
from engine.training.data.batches import Batch
from engine.training.data.datasets import (
    Corpus,
    folder_text,
    load_source,
    load_text,
    python_source,
)
from engine.training.doctor import read_catalog
from engine.training.forecast import forecast
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import refusal, trained

CPU = torch.device("cpu")
PICTURES = np.arange(40 * 8 * 10 * 3, dtype=np.uint8).reshape(40, 8, 10, 3)
NUMBERS = np.arange(40)


def experiment(path: Path, /, **given: Any) -> Experiment:
    chosen = {"dataset": "arrays", "path": str(path), "device": "cpu", "batch_size": 4, "steps": 2}
    return experiment_from(chosen | {"measure": {"warmup_steps": 0}} | given)


def planned(path: Path, /, **given: Any) -> RunPlan:
    return RunPlan(experiment(path, **given), read_catalog())


@pytest.mark.parametrize("compressed", [False, True])
def test_mapped_and_kept_samples_are_the_same(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "p.npz"
    (np.savez_compressed if compressed else np.savez)(path, images=PICTURES, labels=NUMBERS % 4)
    batches = []
    for on_device in (True, False):
        plan = planned(path, data={"on_device": on_device})
        assert (plan.experiment.data.inputs, plan.experiment.data.targets) == ("images", "labels")
        assert (plan.facts.image_size, plan.facts.channels, plan.facts.num_classes) == (8, 3, 4)
        assert (plan.facts.train_samples, plan.facts.validation_samples) == (36, 4)
        source = load_source(plan.experiment, 3, CPU)
        batches.append([*source.epoch(1), *source.validation(None)])
        source.close()
    assert len(batches[0]) == 10
    for (inputs, targets), (others, again) in zip(*batches, strict=True):
        assert inputs.shape[1:] == (3, 8, 8) and inputs.dtype == torch.float32
        assert torch.equal(inputs, others) and torch.equal(targets, again)
    assert sorted(torch.cat([targets for _, targets in batches[0]]).tolist()) == sorted(NUMBERS % 4)


def test_a_sample_keeps_its_target(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", NUMBERS[:, None] * np.ones((1, 3), ">f8"))
    np.save(tmp_path / "y.npy", np.asfortranarray(NUMBERS[:, None] * np.array([[2.0, 3.0]])))
    plan = planned(tmp_path / "x.npy", model="linear")
    source = load_source(plan.experiment, 3, CPU)
    for inputs, targets in source.epoch(1):
        assert inputs.dtype == targets.dtype == torch.float32
        assert torch.equal(inputs[:, :2] * torch.tensor([2.0, 3.0]), targets)
    model = plan.workload.build()
    assert model.weight.shape == (2, 3)


def test_floats_are_not_normalised_and_grey_becomes_three_channels(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((40, 8, 8)).astype(np.float16)
    np.savez(tmp_path / "f.npz", x=values, y=NUMBERS % 2)
    source = load_source(planned(tmp_path / "f.npz").experiment, 3, CPU)
    ((inputs, _), *_) = source.validation(None)
    assert torch.equal(inputs[:, 0], inputs[:, 2])
    assert any(torch.equal(inputs[0, 0], torch.from_numpy(value).float()) for value in values)


def test_each_tokens_target_is_the_next(tmp_path: Path) -> None:
    tokens = np.arange(40 * 9, dtype=np.uint16).reshape(40, 9)
    np.save(tmp_path / "tokens.npy", tokens)
    plan = planned(tmp_path / "tokens.npy", model="causal-lm-tiny")
    assert (plan.experiment.sequence_length, plan.experiment.num_classes) == (8, 360)
    for inputs, targets in load_source(plan.experiment, 3, CPU).epoch(1):
        assert torch.equal(inputs + 1, targets) and inputs.shape == (4, 8)


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_runs_train_validate_and_are_forecast(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    if ending == ".npz":
        np.savez(path, x=rows, y=rows[:, 0])
    else:
        pd.DataFrame({"features": list(rows), "target": rows[:, 0]}).to_parquet(path)
    wanted = experiment(path, model="linear")
    (epoch,) = trained(wanted).epochs
    assert epoch.validation_loss is not None and epoch.validation_accuracy is None
    assert 0 < forecast(wanted).needed_mib < 1_024


@pytest.mark.parametrize(
    ("arrays", "given", "key"),
    [
        ({"x": PICTURES, "y": NUMBERS - 1}, {}, "path"),
        ({"x": PICTURES, "y": NUMBERS}, {"num_classes": 9}, "num_classes"),
        ({"x": PICTURES, "y": NUMBERS}, {"batch_size": 37}, "batch_size"),
        ({"x": PICTURES, "y": NUMBERS}, {"path": None}, "path"),
        ({"x": PICTURES, "y": NUMBERS}, {"model": "linear"}, "dataset"),
        ({"x": PICTURES, "y": NUMBERS / 2}, {}, "dataset"),
        ({"x": NUMBERS[:, None] / 2, "y": NUMBERS / 2}, {"model": "linear", "image_size": 8}, "image_size"),
    ],
)
def test_what_the_model_cannot_take_is_refused(tmp_path, arrays, given, key):
    np.savez(tmp_path / "a.npz", **arrays)
    assert refusal(planned, tmp_path / "a.npz", **given).key == key


def test_uneven_lists_and_empty_cells_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for column in ([[1.0, 2.0]] * 39 + [[1.0]], [*range(39), None]):
        pd.DataFrame({"features": column, "target": NUMBERS / 2}).to_parquet(path)
        assert "'features'" in refusal(planned, path, model="linear").message


TRAIN, HELD_OUT = bytes(range(101)), bytes(range(200, 231))


def corpus(**settings: Any) -> Corpus:
    usual: dict[str, Any] = {"sequence_length": 10, "samples": 10, "batch_size": 4, "seed": 5}
    return Corpus(TRAIN, HELD_OUT, Experiment(**{**usual, **settings}), CPU)


def starts(batches: Iterable[Batch]) -> list[int]:
    return [int(row[0]) for inputs, _ in batches for row in inputs]


def test_an_epoch_takes_each_sequence_once_and_targets_are_the_bytes_after_the_inputs() -> None:
    for inputs, targets in corpus().epoch(1):
        assert inputs.dtype is torch.int64 and inputs.shape == targets.shape and inputs.shape[1] == 10
        assert torch.equal(targets, inputs + 1) and targets.is_contiguous()
    assert sorted(starts(corpus().epoch(1))) == list(range(0, 100, 10))
    assert [len(inputs) for inputs, _ in corpus().epoch(1)] == [4, 4, 2]


def test_an_epoch_longer_than_the_text_goes_round_again_and_a_short_one_is_a_part_of_it() -> None:
    order = starts(corpus(samples=25).epoch(1))
    assert len(order) == 25
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(0, 100, 10))
    assert order[:10] != order[10:20]
    assert len(set(starts(corpus(samples=3).epoch(1)))) == 3


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    first = corpus()
    one, two = starts(first.epoch(1)), starts(first.epoch(2))
    assert one != two
    assert starts(corpus().epoch(2)) == two and starts(first.epoch(1)) == one
    assert starts(corpus(seed=6).epoch(1)) != one


def test_skipped_batches_leave_the_rest_as_it_was_and_no_epoch_holds_the_validation() -> None:
    whole, rest = list(corpus().epoch(3)), list(corpus().epoch(3, skip=2))
    assert len(rest) == 1 and torch.equal(rest[0][0], whole[2][0])
    assert list(corpus().epoch(3, skip=3)) == []
    assert starts(corpus().validation(None)) == [200, 210, 220]
    assert starts(corpus().validation(2)) == [200, 210]


def test_pythons_source_is_there_and_split_by_file(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"m{number:02}.py").write_bytes(b"%02d;" % number)
    (tmp_path / "m21.txt").write_bytes(b"not source")
    (tmp_path / "package.py").mkdir()
    train, validation = python_source(tmp_path)
    assert validation == b"09;19;" and train.startswith(b"00;01;") and len(train) == 18 * 3
    real_train, real_validation = python_source()
    assert b"import" in real_train and b"import" in real_validation
    assert 1_000_000 < len(real_train) < 20_000_000


def test_a_run_reads_pythons_source_or_synthetic_tokens() -> None:
    usual = {"sequence_length": 32, "batch_size": 4, "samples": 8}
    source = load_text(Experiment(dataset="python-source", **usual), CPU)
    batches = list(source.epoch(1))
    assert (source.train_samples, source.has_validation, len(batches)) == (8, True, 2)
    assert all(inputs.shape == (4, 32) and int(inputs.max()) < 256 for inputs, _ in batches)
    source = load_text(Experiment(dataset="synthetic-tokens", num_classes=50, **usual), CPU)
    (inputs, targets), _ = source.epoch(1)
    assert inputs.shape == (4, 32) and torch.equal(inputs[:, 1:], targets[:, :-1])
    assert int(inputs.max()) < 50 and inputs.is_contiguous() and not source.has_validation


def test_too_long_a_sequence_and_a_python_without_its_source_are_told(tmp_path, monkeypatch):
    problem = refusal(load_text, Experiment(dataset="python-source", sequence_length=1_000_000), CPU)
    assert problem.key == "sequence_length" and "at most" in problem.remedy
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ProblemError, match="does not include its source"):
        load_text(Experiment(dataset="python-source"), CPU)


def test_a_folder_of_text_is_split_by_files_or_by_its_end(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.md").write_text("bbbbbbbbbb")
    (tmp_path / "a.txt").write_text("äaaaaaaaa")
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert folder_text(str(tmp_path)) == ("äaaaaaaaabbbbbbbb".encode(), b"bb")
    for number in range(8):
        (tmp_path / f"c{number}.txt").write_text(str(number))
    train, validation = folder_text(str(tmp_path))
    assert validation == b"bbbbbbbbbb" and train.endswith(b"01234567")


def test_text_that_memory_cannot_hold_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text " * 1_000)
    os.truncate(tmp_path / "a.txt", 8 * psutil.virtual_memory().total)
    with pytest.raises(ProblemError, match=r" has [\d,.]+ GiB of text, which must fit in memory, but only "):
        folder_text(str(tmp_path))


def test_no_link_leads_out_of_a_folder_of_text(tmp_path: Path) -> None:
    texts, secrets = tmp_path / "texts", tmp_path / "secrets"
    for folder in (texts / "inner", secrets):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(folder.name * 2)
    (texts / "out.txt").symlink_to(secrets / "a.txt")
    (texts / "up.txt").symlink_to("../secrets/a.txt")
    (texts / "round.txt").symlink_to(texts / "round.txt")
    (texts / "folder").symlink_to(secrets, target_is_directory=True)
    (texts / "within.txt").symlink_to(texts / "inner" / "a.txt")
    (tmp_path / "link").symlink_to(texts, target_is_directory=True)
    for folder in (texts, tmp_path / "link"):
        assert b"".join(folder_text(str(folder))) == b"innerinner" * 2
        assert count_text(str(folder), lambda: False) == TextCount(2, 20)
    shutil.rmtree(texts / "inner")
    problem = path_problem(Experiment(dataset="text-folder", path=str(texts)), DATASETS["text-folder"])
    assert problem is not None and "has no UTF-8 text files" in problem.message


def test_a_folder_with_too_little_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no UTF-8 text files"):
        folder_text(str(tmp_path))
    (tmp_path / "a.txt").write_text("x" * 300)
    wanted = Experiment(
        model="causal-lm-tiny", dataset="text-folder", path=str(tmp_path), sequence_length=64, num_classes=256
    )
    assert refusal(load_text, wanted, CPU).key == "sequence_length"
    (tmp_path / "a.txt").write_text("x")
    assert refusal(load_text, wanted, CPU).key == "path"
