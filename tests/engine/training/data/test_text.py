"""Text: synthetic tokens, and Python's own source byte by byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from engine.experiment.experiment import Experiment
from engine.experiment.own.folders import TextCount, count_text, path_problem
from engine.experiment.problem import ProblemError
from engine.training.data.batches import Batch
from engine.training.data.datasets import Corpus, folder_text, load_text, python_source, text_entries
from tests.engine.training.conftest import refusal

CPU = torch.device("cpu")
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
    problem = path_problem(Experiment(dataset="text-folder", path=str(texts)), text_entries()[-1])
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
