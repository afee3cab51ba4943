"""The text of scripts: short, tidy, safe to run whatever a run is called, and written whole or not at all."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.presets import BUILT_IN, preset
from engine.experiment.problem import ProblemError
from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.export.script.data import KNOWN
from engine.export.script.model import LANGUAGE_SIZES
from engine.export.script.page import built_in_data, script_source
from engine.export.script.source import OwnFacts
from engine.protocol.events import Finished, Summary
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.training.data.datasets import dataset_entries
from engine.training.data.image_sources import _LOOKS
from engine.training.models.build import SHAPES
from tests.engine.conftest import ENVIRONMENT

HOSTILE = (
    'Run """ + __import__("os").system("true") + """',
    "'''\nimport os\nos.abort()\n#",
    "# coding: latin-1\\",
    '\\"""\\N{DIGIT ONE}\\x',
    "\N{RIGHT-TO-LEFT OVERRIDE}\x00\x1b[2J\u2028\ud800",
    "\N{FIRE} " * 200,
    "{{ 7 * 7 }}{% raw %}",
)
EVERYTHING: dict[str, Any] = {
    "model": "densenet121",
    "dataset": "image-folder",
    "num_classes": 7,
    "precision": "fp16",
    "device": "cuda:0",
    "epochs": 3,
    "memory_cap_gib": 8,
    "label_smoothing": 0.1,
    "on_nan": "fail",
    "optimizer": {"name": "sgd", "momentum": 0.9, "fused": True},
    "schedule": {"name": "step", "warmup_steps": 5},
    "scaler": {"init_scale": 1024, "growth_factor": 4, "backoff_factor": 0.25, "growth_interval": 7},
    "step": {
        "recipe": "fast",
        "gradient_accumulation": 2,
        "clip_norm": 1,
        "fp32_modules": ["features.*", "classifier"],
        "activation_checkpointing": True,
    },
    "data": {"augment": True, "workers": 4},
    "validation": {"every": 2, "limit": 10},
    "checkpoint": {"best": True, "last": True},
}

MUON: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "synthetic-tokens",
    "device": "cuda:0",
    "optimizer": {"name": "muon"},
    "schedule": {"warmup_steps": 5},
    "step": {"activation_checkpointing": "selective", "offload_activations": True},
}


@pytest.fixture
def run_of(exports_store: Store) -> Callable[..., RunRecord]:
    def make(settings: Experiment | None = None, *, name: str = "Run", **given: Any) -> RunRecord:
        return exports_store.add(settings or experiment_from(given), name=name)

    return make


def ruff(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "ruff", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def check_style(folder: Path) -> None:
    # the house's own rules, but that a script prints and need not be a package
    project = Path(__file__).parents[3] / "pyproject.toml"
    assert ruff("check", "--no-cache", "--config", project, "--ignore", "T20", folder) == ""
    assert ruff("format", "--no-cache", "--config", project, "--check", folder) == ""


def test_scripts_are_tidy(run_of: Callable[..., RunRecord], tmp_path: Path) -> None:
    """Of every preset, of everything at once, of Muon with selective checkpointing, and of a model file."""
    for name in BUILT_IN:
        for has_gpu in (True, False):
            for label, experiment in preset(name).experiments(has_gpu):
                text = script_source(run_of(experiment, name=label))
                (tmp_path / f"{name}-{label}-{has_gpu}.py").write_text(text)
    text = script_source(run_of(**EVERYTHING), 50)
    words = " ".join(text.split())
    assert "The run used a CUDA graph. This script does not" in words
    assert "Any BatchNorm layers count their batches on the device here" in words
    (tmp_path / "everything.py").write_text(text)
    (tmp_path / "muon.py").write_text(script_source(run_of(**MUON)))
    text = script_source(run_of(model=CODE.file, code=CODE.to_json(), dataset="own"))
    (tmp_path / "own.py").write_text(text)
    check_style(tmp_path)


def test_what_a_run_did_not_use_is_not_there(run_of: Callable[..., RunRecord]) -> None:
    plain = script_source(run_of(device="cpu"))
    for word in ("autocast", "scaler", "clip_grad", "learning_rate(", "islice", "compile", "channels_last"):
        assert word not in plain
    scaled = script_source(run_of(precision="fp16", step={"clip_norm": 1.0}))
    order = (
        "torch.autocast",
        ".backward()",
        "scaler.unscale_",
        "clip_grad_norm_",
        "scaler.step",
        ".update()",
    )
    # the last of each: the validation has its own autocast
    places = [scaled.rindex(word) for word in order]
    assert places == sorted(places)
    assert "scaler" not in script_source(run_of(precision="bf16"))


@pytest.mark.parametrize(
    ("precision", "flags"),
    [
        ("fp32", ('("highest")', "allow_tf32 = False")),
        ("tf32", ('("high")', "allow_tf32 = True")),
        ("default", ()),
        ("bf16", ('("highest")', "allow_tf32 = False")),
    ],
)
def test_the_flags_of_float32_products_are_the_precisions(
    precision: str, flags: tuple[str, ...], run_of: Callable[..., RunRecord]
) -> None:
    text = script_source(run_of(precision=precision))
    assert all(flag in text for flag in flags)
    assert bool(flags) == ("allow_tf32" in text)


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        ({}, "torch.compile(model, dynamic=False)"),
        ({"compile_dynamic": True}, "torch.compile(model, dynamic=True)"),
        ({"compile_mode": "max-autotune"}, 'torch.compile(model, mode="max-autotune", dynamic=False)'),
    ],
)
def test_a_script_compiles_as_the_run_did(
    run_of: Callable[..., RunRecord], settings: dict[str, Any], call: str
) -> None:
    assert call in script_source(run_of(step={"recipe": "compile", **settings}))


def test_the_recipe_is_the_one_that_was_in_force_if_it_is_known(
    exports_store: Store, trained: Callable[..., str]
) -> None:
    run_id = trained(step={"recipe": "fast"}, ends=False)
    exports_store.record(run_id, [Finished(summary=Summary(recipe="channels_last+fused"))])
    text = script_source(exports_store.run(run_id))
    assert "torch.channels_last" in text and "fused=True" in text and "torch.compile" not in text
    run_id = trained(ends=False)
    exports_store.record(run_id, [Finished(summary=Summary(recipe="rm -rf"))])
    with pytest.raises(ProblemError, match="no recipe named 'rm -rf'"):
        script_source(exports_store.run(run_id))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_and_nothing_else(
    name: str, exports_store: Store, trained: Callable[..., str]
) -> None:
    device = name.replace("\ud800", "")
    environment = ENVIRONMENT.model_copy(update={"device_name": device, "torch": '2"""', "ammeter": "0"})
    # what is not text at all cannot be stored
    hostile = replace(exports_store.run(trained(environment=environment)), name=name)
    tame = exports_store.run(trained(name="Run"))
    text = script_source(hostile)
    text.encode()
    assert all(character.isprintable() or character == "\n" for character in text)
    bodies = [ast.dump(ast.Module(ast.parse(script).body[1:], [])) for script in (text, script_source(tame))]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "resnet18(); import os; os.abort()"},
        {"model": "import"},
        {"dataset": "fashion'"},
        {"dataset": "image-folder"},
        {"dataset": "image-folder", "num_classes": 2, "schedule": {"name": "cosine"}, "epochs": 2},
    ],
)
def test_what_cannot_be_told_is_refused(settings: dict[str, Any], run_of: Callable[..., RunRecord]) -> None:
    with pytest.raises(ProblemError) as raised:
        script_source(run_of(**settings))
    assert raised.value.problem.key and raised.value.problem.remedy


def test_names_of_modules_are_literals(run_of: Callable[..., RunRecord]) -> None:
    pattern = '"); import os; os.abort()  # \n\\'
    text = script_source(run_of(precision="fp16", step={"fp32_modules": [pattern, "features.0"]}))
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (keep,) = [call for call in calls if getattr(call.func, "id", "") == "keep_in_float32"]
    assert [ast.literal_eval(argument) for argument in keep.args[1:]] == [pattern, "features.0"]


CODE = Code(
    file="my net.py",
    folder="/there",
    text="# coding: latin-1\nfrom blocks import small\n\nNAME = 'ä'\nmodel, batch = small.Net, None\n",
    beside={"blocks/small.py": "class Net: ...\n"},
)


def test_a_models_own_file_lies_beside(
    exports_store: Store, trained: Callable[..., str], tmp_path: Path
) -> None:
    run_id = trained(model=CODE.file, code=CODE.to_json(), dataset="own", device="cpu")
    content, names = content_of(exports_store, [run_id]), ("train.py", "blocks/small.py", "my_net.py")
    expected = tuple(tmp_path / name for name in names)
    assert COMPARISON.export_files(content, tmp_path / "train.py") == expected
    script, _, own = (path.read_bytes() for path in expected)
    assert (
        b"\nfrom my_net import batch  # noqa: E402\nfrom my_net import model as make_model  # noqa" in script
    )
    assert own == CODE.text.encode("latin-1")
    # the same module may be there already, but another one is kept
    assert COMPARISON.export(content, tmp_path / "again.py").is_file()
    expected[2].write_text("changed since")
    with pytest.raises(ProblemError, match=r"my_net\.py already exists and differs from the module"):
        COMPARISON.export(content, tmp_path / "train.py", force=True)
    assert expected[2].read_text() == "changed since" and expected[0].read_bytes() == script
    for name in ("my_net.py", "Blocks.py"):
        with pytest.raises(ProblemError, match="is the name of the run's model file or of a module"):
            COMPARISON.export(content, tmp_path / name, force=True)


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("net.py", "net"),
        ("random.py", "random_model"),
        ("2 nets.py", "_2_nets"),
        ("blocks.py", "blocks_model"),
        # one that Python takes for the script, and one whose ligature it takes for two letters
        ("__main__.py", "__main___model"),
        ("\ufb01ne.py", "fine"),
    ],
)
def test_a_model_file_is_imported_by_a_name_that_hides_no_other(file: str, module: str) -> None:
    facts = OwnFacts(CODE.model_copy(update={"file": file}), "model")
    assert facts.module == module and next(facts.files())[0] == f"{module}.py"


def test_datasets_and_language_models_are_known_as_the_engine_has_them() -> None:
    entries = {entry.name: entry for entry in dataset_entries()}
    assert set(KNOWN) == set(entries)
    for name, known in KNOWN.items():
        entry = entries[name]
        assert known.image_size == (entry.image_size or 0) and known.channels == (entry.channels or 0)
        assert known.classes == (entry.num_classes or 0)
        assert known.train_samples == (entry.train_samples or 0)
        assert known.validation_samples == (entry.validation_samples or 0)
        if known.colors is not None:
            colours, _ = _LOOKS[name]
            assert (known.colors.mean, known.colors.deviation) == (colours.mean, colours.deviation)
    names = ("hidden", "layers", "heads", "key_value_heads", "feed_forward", "max_sequence_length")
    sizes = {name: tuple(getattr(shape, part) for part in names) for name, shape in SHAPES.items()}
    assert sizes == LANGUAGE_SIZES


def test_the_built_in_pictures_come_with_their_licence(run_of: Callable[..., RunRecord]) -> None:
    data = built_in_data(run_of())
    assert data is not None and data == built_in_data(run_of())
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        assert arrays["train_pictures"].shape == (6_000, 28, 28) and arrays["test_labels"].shape == (1_000,)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("LICENSE") == (files("resources") / "fashion" / "LICENSE").read_bytes()
    assert built_in_data(run_of(dataset="synthetic")) is None


def test_a_script_is_of_one_run(exports_store: Store, trained: Callable[..., str], tmp_path: Path) -> None:
    content = content_of(exports_store, [trained(), trained("fp16")])
    with pytest.raises(ProblemError, match="exactly one run, but 2 were given"):
        COMPARISON.export(content, tmp_path / "run.py")
    assert not list(tmp_path.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 500, "validation": {"limit": 10}},
        {
            "dataset": "fakedata",
            "image_size": 8,
            "batch_size": 1_000,
            "data": {"workers": 1, "pin_memory": False},
        },
    ],
)
def test_it_runs_where_ammeter_is_not(
    settings: dict[str, Any],
    exports_store: Store,
    trained: Callable[..., str],
    tmp_path: Path,
    start_script: Callable[[Path, dict[str, str]], subprocess.Popen[bytes]],
) -> None:
    run_id = trained("bf16", steps=1, **settings)
    path = COMPARISON.export(content_of(exports_store, [run_id]), tmp_path / "a script.py")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('torch.device("cuda:0")', 'torch.device("cpu")'), encoding="utf-8")
    with start_script(path, dict(os.environ)) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    printed = r"step 1: loss 2\.\d+\nepoch 1: validation loss \S+, accuracy 0\.\d+\n"
    assert re.fullmatch(printed, out.decode())
