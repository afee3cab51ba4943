"""A file of the user's own arrays: which are inputs and targets, what they are for, and what is refused."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import safetensors.numpy

from engine.experiment.own import array_files
from engine.experiment.own.arrays import FileSamples, samples_of_file
from engine.experiment.problem import Problem, ProblemError

BYTES = np.zeros((20, 8, 8), np.uint8)
CLASSES = np.arange(20) % 3
ROWS, FLOATS = np.zeros((20, 5)), np.zeros(20)


def saved(path: Path, arrays: dict[str, Any]) -> str:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        safetensors.numpy.save_file(arrays, path)
    else:
        for name, array in arrays.items():
            np.save(path.with_name(f"{name}.npy"), array)
    return str(path)


def refused(path: object, *names: str) -> Problem:
    with pytest.raises(ProblemError) as raised:
        samples_of_file(str(path), *names)
    problem = raised.value.problem
    assert problem.message.endswith(".") and problem.remedy
    return problem


def names_of(samples: FileSamples) -> tuple[str | None, ...]:
    arrays = (samples.inputs, samples.targets, *(samples.validation or ()))
    return tuple(None if array is None else array.name for array in arrays)


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    "names",
    [
        ("x", "y"),
        ("x_train", "y_train", "x_test", "y_test"),
        ("X", "Y"),
        ("train_images", "train_labels", "val_images", "val_labels"),
        ("features", "target"),
        ("frames", "labels"),
    ],
)
def test_the_usual_names_decide(tmp_path: Path, ending: str, names: tuple[str, ...]) -> None:
    arrays = {name: CLASSES if place % 2 else BYTES for place, name in enumerate(names)}
    samples = samples_of_file(saved(tmp_path / f"a{ending}", arrays))
    assert names_of(samples) == names
    assert samples.task == "classification" and samples.inputs.offset is not None


@pytest.mark.parametrize(
    ("inputs", "targets"), [("x", "y"), ("train_x", "train_y"), ("cats-inputs", "cats-targets")]
)
def test_targets_lie_beside_a_file_of_inputs(tmp_path: Path, inputs: str, targets: str) -> None:
    path = saved(tmp_path / f"{inputs}.npy", {inputs: ROWS, targets: FLOATS, "other": CLASSES})
    assert names_of(samples_of_file(path)) == (inputs, targets)
    assert names_of(samples_of_file(path, "", "other.npy")) == (inputs, "other")
    assert refused(path, "", "nothing.npy").key == "data.targets"


@pytest.mark.parametrize(
    ("inputs", "targets", "task", "size"),
    [
        (BYTES, CLASSES, "classification", (8, 1)),
        (np.zeros((20, 3, 6, 9), np.float32), CLASSES, "classification", (6, 3)),
        (np.zeros((20, 6, 9, 3), np.uint8), CLASSES[:, None], "classification", (6, 3)),
        (ROWS, FLOATS, "regression", (None, None)),
        (ROWS, CLASSES, "own", (None, None)),
        (np.zeros((20, 7), int), None, "language", (None, None)),
        (np.zeros((20, 7), int), np.zeros((20, 7), int), "language", (None, None)),
        (BYTES, BYTES, "own", (None, None)),
    ],
)
def test_what_the_arrays_are_decides_what_they_are_for(tmp_path, inputs, targets, task, size, entry):
    arrays = {"x": inputs} if targets is None else {"x": inputs, "y": targets}
    samples = samples_of_file(saved(tmp_path / "a.npz", arrays))
    described = samples.described(entry)
    assert (described.task, described.image_size, described.channels) == (task, *size)
    assert (described.train_samples, described.validation_samples) == (18, 2)
    assert described.sequence_length == (None if task != "language" else 6 if targets is None else 7)


@pytest.fixture
def entry() -> Any:
    from engine.experiment.catalog import DatasetEntry

    return DatasetEntry(name="arrays", title="", task="own")


def test_a_table_has_columns_of_numbers_or_lists(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": ROWS[:, 0], "b": CLASSES, "name": ["n"] * 20, "target": FLOATS}).to_parquet(path)
    samples = samples_of_file(str(path))
    assert samples.inputs.columns == ("a", "b") and samples.inputs.shape == (20, 2)
    assert names_of(samples_of_file(str(path), "b, target", "a")) == ("b, target", "a")
    assert refused(path, "name", "a").key == "data.inputs"
    pd.DataFrame({"features": list(ROWS), "label": FLOATS}).to_parquet(path)
    assert samples_of_file(str(path)).inputs.shape == (20, 5)


def test_a_table_of_thousands_of_columns_is_read_whole_and_its_schema_once(tmp_path, monkeypatch):
    schemas = []
    made = pyarrow.parquet.ParquetFile.schema_arrow.fget

    def schema_of(table: pyarrow.parquet.ParquetFile) -> pyarrow.Schema:
        schemas.append(table)
        return made(table)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "schema_arrow", property(schema_of))
    path = tmp_path / "wide.parquet"
    numbers = {f"c{place}": np.zeros(20, np.float32) for place in range(3_000)}
    pyarrow.parquet.write_table(pyarrow.table({**numbers, "target": FLOATS}), path)
    samples = samples_of_file(str(path))
    assert samples.inputs.shape == (20, 3_000) and len(schemas) == 1
    assert samples.targets is not None and samples.targets.name == "target"
    monkeypatch.setattr(array_files, "_MOST_COLUMNS", 3_000)
    array_files._headers.cache_clear()
    assert "has 3,001 columns" in refused(path).message


def test_the_first_row_of_a_table_s_lists_shows_their_shape(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    rows = {
        "x": [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]] * 20,
        "empty": [[]] * 20,
        "none": [None, *[[1]] * 19],
        "structs": [[{"a": 1}]] * 20,
        "y": CLASSES,
    }
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    shapes = {array.name: array.shape for array in array_files.read_headers(path)}
    assert shapes == {"x": (20, 3, 2), "empty": (20, 0), "none": (20,), "structs": (20, 1), "y": (20,)}


@pytest.mark.parametrize(
    ("arrays", "names", "key", "said"),
    [
        ({"a": ROWS, "b": FLOATS, "c": FLOATS}, (), "data.inputs", "do not show"),
        ({"x": ROWS, "y": FLOATS}, ("z",), "data.inputs", "'z'"),
        ({"x": ROWS, "y": FLOATS}, ("x", "z"), "data.targets", "'z'"),
        ({"x": ROWS}, (), "data.targets", "empty"),
        ({"x": ROWS, "y": FLOATS[:9]}, (), "path", "20 samples, but 'y' has 9"),
        ({"x": ROWS[:0], "y": FLOATS[:0]}, (), "path", "no samples"),
        ({"x": ROWS[:1], "y": FLOATS[:1]}, (), "path", "only one sample"),
        ({"x": np.array([None, {}] * 10), "y": FLOATS}, (), "path", "Python objects"),
        ({"x": np.array(["a"] * 20), "y": FLOATS}, (), "path", "cannot be trained on"),
        ({"x": ROWS, "y": FLOATS, "x_val": ROWS[:, :2], "y_val": FLOATS}, (), "path", "differs"),
    ],
)
def test_unusable_arrays_are_named(tmp_path, arrays, names, key, said):
    path = saved(tmp_path / "a.npz", arrays)
    problem = refused(path, *names)
    assert problem.key == key and said in problem.message and path in problem.message


def test_what_is_no_such_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("x")
    assert "cannot be read" in refused(tmp_path / "none.npz").message
    assert "is a folder" in refused(tmp_path).message
    assert ".safetensors" in refused(tmp_path / "words.txt").message
    refused("a\0b.npz")


class Evil:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('unpickled')",)


def whole_files(folder: Path) -> dict[Path, bytes]:
    saved(folder / "a.npz", {"x": BYTES, "y": CLASSES})
    np.savez_compressed(folder / "b.npz", x=BYTES, y=CLASSES)
    saved(folder / "x.npy", {"x": ROWS, "y": FLOATS})
    saved(folder / "c.safetensors", {"x": BYTES, "y": CLASSES})
    pd.DataFrame({"a": FLOATS, "b": CLASSES, "y": FLOATS}).to_parquet(folder / "t.parquet")
    return {file: file.read_bytes() for file in folder.iterdir() if file.name != "y.npy"}


def damaged(whole: bytes, draw: random.Random) -> bytes:
    change: Callable[[], bytes] = draw.choice(
        [
            lambda: whole[: draw.randrange(len(whole))],
            lambda: whole[draw.randrange(1, 40) :],
            lambda: bytes(byte ^ (draw.random() < 0.02) * draw.randrange(256) for byte in whole),
            lambda: whole[:8] + bytes([255] * 8) + whole[16:],
            lambda: pickle.dumps(Evil()),
            lambda: b"",
        ]
    )
    return change()


@pytest.mark.filterwarnings("ignore")
def test_broken_files_give_sentences(tmp_path: Path) -> None:
    draw, outcomes = random.Random(5), {"read": 0, "refused": 0}
    for path, whole in whole_files(tmp_path).items():
        for number in range(60):
            broken = tmp_path / "broken" / f"{number}"
            broken.mkdir(parents=True, exist_ok=True)
            file = broken / path.name
            file.write_bytes(damaged(whole, draw))
            if path.suffix == ".npy":
                saved(broken / "x.npy", {"y": FLOATS})
            try:
                samples_of_file(str(file))
                outcomes["read"] += 1
            except ProblemError as error:
                assert all(problem.message.endswith(".") for problem in error.problems)
                outcomes["refused"] += 1
    assert outcomes["refused"] > 150  # a changed number is no damage to a header


def test_headers_are_read_without_torch(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", {"x": BYTES, "y": CLASSES})
    code = (
        "import sys; from engine.experiment.own.arrays import samples_of_file; "
        f"samples_of_file({path!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
