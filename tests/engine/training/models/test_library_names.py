"""The names of timm's and transformers' models are read from their sources as the libraries have them."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from typing import Any

import pytest

from engine.experiment.catalog import OWN
from engine.experiment.checks import problems
from engine.experiment.experiment import Experiment
from engine.training.doctor import read_catalog
from engine.training.models.libraries import AUDIO, CAUSAL, IMAGE, SEQUENCE, heads_by_type, library_entries


@pytest.mark.filterwarnings("ignore")
def test_the_names_are_those_that_the_libraries_have_themselves() -> None:
    import timm
    from transformers.models.auto import modeling_auto

    timms = {entry.name.removeprefix("timm:") for entry in library_entries() if entry.family == "timm"}
    assert timms == set(timm.list_models()) and len(timms) > 1_000
    heads = heads_by_type()
    causal = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    image = set(modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES) - causal
    sequence = set(modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES) - causal - image
    audio = set(modeling_auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES) - causal - image - sequence
    by_head = {
        head: {name for name, its in heads.items() if its == head}
        for head in (CAUSAL, IMAGE, SEQUENCE, AUDIO)
    }
    assert by_head == {CAUSAL: causal, IMAGE: image, SEQUENCE: sequence, AUDIO: audio}


LOOK = """
import sys
from engine.training.doctor import read_catalog
assert len(read_catalog().library_models) > 1_500
assert not {"timm", "transformers"} & set(sys.modules)
"""


@pytest.mark.slow
def test_a_catalog_with_all_of_them_imports_neither_library() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    find = util.find_spec

    def without_timm(name: str, package: str | None = None) -> Any:
        return None if name == "timm" else find(name, package)

    monkeypatch.setattr("engine.training.models.libraries.find_spec", without_timm)
    catalog = read_catalog()
    (problem,) = problems(Experiment(model="timm:resnet18"), catalog)
    assert "uv sync --extra timm" in problem.message and "pip install timm" in problem.message
    assert catalog.model("hf:llama") is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"model": "timm:resnet81"}, "Did you mean timm:resnet18"),
        ({"model": "resnet18d"}, "Did you mean timm:resnet18d?"),
        ({"model": "hf:llama"}, "synthetic-tokens"),
        ({"model": "hf:albert"}, OWN),
        ({"overrides": ["hidden_size=3"]}, "Leave it empty"),
    ],
)
def test_what_a_name_cannot_mean_is_told_with_a_way_out(settings: dict[str, Any], expected: str) -> None:
    (problem,) = problems(Experiment.model_validate(settings), read_catalog())
    assert expected in problem.remedy
