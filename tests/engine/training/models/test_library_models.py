"""Language models, and models of timm and transformers: built for the data, from the seed, or refused."""

from __future__ import annotations

import math
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import util
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from engine.experiment.built_in import LANGUAGE_SIZES, USUAL_VOCABULARY
from engine.experiment.catalog import OWN_DATA
from engine.experiment.checks import problems
from engine.experiment.experiment import Experiment, experiment_from
from engine.export.script.model import model_facts
from engine.training.doctor import read_catalog
from engine.training.forecast import forecast
from engine.training.models.build import (
    CausalLanguageModel,
    build_language_model,
    build_model,
    count_parameters,
    language_model_entries,
)
from engine.training.models.libraries import AUDIO, CAUSAL, IMAGE, SEQUENCE, heads_by_type, library_entries
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import refusal, trained

SMALL = ("hidden_size=32", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=32")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=AssertionError("a model asked for the network"))
    monkeypatch.setattr(socket.socket, "connect", refuse)


def built(
    name: str,
    size: int = 32,
    classes: int = 10,
    overrides: Sequence[str] = (),
    length: int = 16,
    seed: int = 0,
) -> nn.Module:
    return build_model(
        name,
        image_size=size,
        channels=1,
        num_classes=classes,
        sequence_length=length,
        overrides=overrides,
        seed=seed,
    )


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("timm:test_resnet", ()),
        ("timm:test_vit", ("depth=1", "drop_path_rate=0.1")),
        ("hf:vit", SMALL),
        ("hf:deit", SMALL),
        ("hf:resnet", ("depths=[1, 1]", "hidden_sizes=[8, 16]", "embedding_size=8")),
    ],
)
def test_pictures_of_the_datasets_own_channels_become_logits(name: str, overrides: tuple[str, ...]) -> None:
    model = built(name, overrides=overrides)
    logits = model(torch.randn(3, 1, 32, 32))
    assert logits.shape == (3, 10) and logits.dtype is torch.float32 and model.training


@pytest.mark.parametrize("name", ["hf:llama", "hf:gpt2", "hf:bert"])
def test_no_prediction_of_a_language_model_sees_the_tokens_after_it(name: str) -> None:
    model = built(name, classes=64, overrides=SMALL if name != "hf:gpt2" else SMALL[:3]).eval()
    tokens = torch.randint(64, (2, 12))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 64
    before, after = model(tokens), model(changed)
    assert before.shape == (2, 12, 64)
    torch.testing.assert_close(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8:], after[:, 8:])


def test_weights_are_those_that_the_library_makes_from_the_seed() -> None:
    import timm

    torch.manual_seed(5)
    by_hand = timm.create_model("test_vit", num_classes=10, in_chans=1, img_size=32)
    next_number = torch.rand(1)
    ours = built("timm:test_vit", seed=5)
    assert torch.equal(parameters_to_vector(ours.parameters()), parameters_to_vector(by_hand.parameters()))
    assert torch.equal(torch.rand(1), next_number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "key", "message", "remedy"),
    [
        ("timm:vgg11", {"size": 16}, "image_size", "is 16, but timm:vgg11 cannot take it", "to 224"),
        ("timm:test_vit", {"overrides": ["depht=2"]}, "overrides", "no setting of that name", "depth?"),
        ("timm:test_vit", {"overrides": ["pretrained=true"]}, "overrides", "no setting of", "Remove"),
        ("hf:gpt2", {"overrides": ["hiden_size=2"]}, "overrides", "'hiden_size'", "mean hidden_size?"),
        ("hf:gemma3", {"overrides": ["head_dim=2"]}, "overrides", "no setting", "mean text_config.head_dim"),
        ("hf:gpt2", {"overrides": ["n_embd=big"]}, "overrides", "is a whole number", "n_embd=768"),
        ("hf:swin", {"overrides": ["depths=2"]}, "overrides", "is a list", "depths=[2, 2, 6, 2]"),
        ("hf:gpt2", {"overrides": ["attn_implementation=a/b"]}, "overrides", "can only have", "Change or"),
        ("hf:gpt2", {"overrides": ["n_embd=30", "n_head=4"]}, "overrides", "divisible", "Change or remove"),
        ("hf:gpt2", {"length": 2_000}, "sequence_length", "at most 1,024", "at most 1,024"),
        ("hf:roberta", {"length": 512, "overrides": SMALL}, "sequence_length", "takes fewer", "504"),
    ],
)
def test_what_an_architecture_does_not_take_is_told_in_a_sentence(name, settings, key, message, remedy):
    problem = refusal(built, name, **settings)
    assert problem.key == key and message in problem.message and remedy in problem.remedy
    assert "\n" not in problem.message and "Error" not in problem.message


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("hf:timm_wrapper", 'model_args={"checkpoint_path": "trap"}'),
        ("hf:timm_wrapper", "architecture=local-dir:trap"),
        ("hf:beit", 'backbone_config={"checkpoint": "trap"}'),
        ("hf:llama", "_name_or_path=trap"),
        ("hf:llama", "auto_map={'AutoModel': 'trap--net.Net'}"),
        ("hf:llama", "quantization_config={'quant_method': 'trap'}"),
        ("hf:llama", "dtype=float16"),
        ("hf:llama", "attn_implementation=kernels-community/trap"),
        ("hf:llama", "attn_implementation=flash_attention_2"),  # a kernel from the hub, where it is missing
        ("hf:llama", "hidden_act={'name': 'trap/net'}"),
        ("hf:llama", 'rope_parameters={"rope_type": "default", "file": 1}'),
        ("hf:gemma3", "text_config._name_or_path=trap"),
        ("timm:test_vit", "checkpoint_path=trap"),
        ("timm:test_vit", "pretrained=true"),
        ("timm:test_vit", "pretrained_cfg={'file': 'trap'}"),
        ("timm:test_vit", "pretrained_cfg_overlay={'file': 'trap'}"),
        ("timm:test_vit", "cache_dir=trap"),
        ("timm:test_vit", "norm_kwargs={'file': 'trap'}"),
        ("timm:test_vit", "act_layer=trap.net"),
        ("timm:test_vit", "depth=[[2, 'trap']]"),
    ],
)
def test_no_setting_names_a_file_a_repository_or_code(name, override, monkeypatch):
    monkeypatch.setattr(torch, "load", Mock(side_effect=AssertionError("something was unpickled")))
    problem = refusal(built, name, overrides=[override])
    assert problem.key == "overrides" and re.search("can be set here|can only have", problem.message)
    asked = Experiment(model=name, overrides=(override,))
    assert refusal(model_facts, asked, channels=3, classes=10, image_size=32).key == "overrides"


@pytest.mark.parametrize("name", ["timm:local-dir:trap", "timm:hf-hub:trap/net", "hf:trap/net"])
def test_a_name_from_a_hub_or_a_folder_is_in_no_catalog_and_in_no_script(name: str) -> None:
    assert problems(Experiment(model=name), read_catalog())
    refusal(model_facts, Experiment(model=name), channels=3, classes=10, image_size=32)


def test_sizes_rates_flags_and_known_words_can_be_set() -> None:
    rope = 'rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}'
    built("hf:llama", overrides=[*SMALL, rope, "hidden_act=gelu", "tie_word_embeddings=true"])
    built(
        "timm:test_vit", overrides=["act_layer=relu", "global_pool=avg", "qkv_bias=false", "init_values=null"]
    )


@pytest.mark.parametrize("name", ["timm:vit_giant_patch14_224", "hf:llama", "causal-lm-8b"])
def test_a_model_larger_than_the_machines_memory_is_refused_before_it_is_built(name, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Mock(available=2**30))
    problem = refusal(built, name, size=224)
    assert "1.0 GiB are free" in problem.message and problem.key == "model"


SHRUNK = ", ".join((*SMALL, "vocab_size=64"))
RUNS: dict[str, dict[str, Any]] = {
    "timm": {"model": "timm:test_resnet", "dataset": "fashion", "precision": "bf16"},
    "causal": {
        "model": "hf:llama",
        "dataset": "synthetic-tokens",
        "num_classes": 64,
        "overrides": ", ".join(SMALL),
        "precision": "bf16",
        "step": {"activation_checkpointing": True},
    },
    "pictures": {"model": "hf:vit", "dataset": "fashion", "overrides": ", ".join(SMALL)},
    "text": {"model": "hf:albert", "dataset": "own", "overrides": SHRUNK},
    "pairs": {
        "model": "hf:t5",
        "dataset": "own",
        "overrides": "d_model=32, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2, vocab_size=64",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)
def test_it_trains_and_is_forecast_from_its_name_alone(settings: dict[str, Any]) -> None:
    experiment = experiment_from(
        {"sequence_length": 16, "batch_size": 4, "steps": 2, "samples": 8, "device": "cpu", **settings}
    )
    run = trained(experiment)
    assert run.summary.steps == 2 == len(run.losses) and all(map(math.isfinite, run.losses))
    assert (run.started.loss_name, run.started.loss_unit) == ("cross-entropy", "nats")
    if settings is not RUNS["pairs"]:
        made = forecast(experiment)
        assert made.parameters_mib > 0 and made.per_sample_mib > 0


def test_a_transformer_is_not_rearranged_for_its_single_convolution() -> None:
    catalog = read_catalog()
    for name, gains in (("timm:test_resnet", True), ("timm:test_vit", False)):
        plan = RunPlan(experiment_from({"model": name, "image_size": 32, "device": "cpu"}), catalog)
        assert plan.workload.is_convolutional(plan.workload.build()) is gains


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
from engine.training.models.build import build_model, model_entries
assert model_entries() and not {"timm", "transformers"} & set(sys.modules)
build_model("causal-lm-tiny", image_size=0, channels=0, num_classes=16, seed=0)
assert "transformers" in sys.modules and "timm" not in sys.modules
# transformers would import it, in a way after which nothing of it can be used
assert not any(name.startswith("torchao") for name in sys.modules)
import logging, warnings
from importlib.util import find_spec
logging.disable()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if find_spec("torchao"):
        import torchao.optim
"""


@pytest.mark.slow
def test_a_catalog_imports_no_library_and_building_a_model_loads_its_own_alone_and_says_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", LOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
        ({"model": "hf:albert"}, OWN_DATA),
        ({"overrides": ["hidden_size=3"]}, "Leave it empty"),
    ],
)
def test_what_a_name_cannot_mean_is_told_with_a_way_out(settings: dict[str, Any], expected: str) -> None:
    (problem,) = problems(Experiment.model_validate(settings), read_catalog())
    assert expected in problem.remedy


TINY = "causal-lm-tiny"


@pytest.fixture(scope="module")
def tiny() -> Iterator[nn.Module]:
    yield build_language_model(TINY, vocabulary=256, seed=3)


def test_parameters_are_counted_as_they_are_built(tiny: nn.Module) -> None:
    assert count_parameters(tiny) == LANGUAGE_SIZES[TINY].parameters(256)
    entries = {entry.name: entry.parameters for entry in language_model_entries()}
    assert entries[TINY] == LANGUAGE_SIZES[TINY].parameters(USUAL_VOCABULARY) < 10_000_000


def test_the_sizes_grow_from_tiny_to_that_of_llama_3_1_8b() -> None:
    assert LANGUAGE_SIZES["causal-lm-8b"].parameters(128_256) == 8_030_261_248
    counts = [entry.parameters for entry in language_model_entries()]
    assert counts == sorted(counts) and len(counts) == 5
    assert all(entry.reason is None and entry.max_sequence_length for entry in language_model_entries())


@pytest.mark.slow
def test_tokens_become_logits_that_see_no_token_after_them(tiny: nn.Module) -> None:
    logits = tiny(torch.randint(256, (2, 9)))
    assert logits.shape == (2, 9, 256) and logits.dtype is torch.float32
    names = {name for name, _ in tiny.named_modules()}
    assert {"model", "model.embed_tokens", "model.layers.3.self_attn.q_proj", "lm_head"} <= names
    tokens = torch.randint(256, (2, 12))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 256
    before, after = tiny(tokens), tiny(changed)
    assert torch.equal(before[:, :8], after[:, :8]) and not torch.equal(before[:, 8:], after[:, 8:])
    # whatever makes the host wait, as reading a tensor does, also breaks the graph
    compiled = torch.compile(tiny, backend="eager", fullgraph=True, dynamic=False)
    assert torch.equal(compiled(tokens), before)


def test_the_logits_are_those_of_the_librarys_own_forward() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    llama = LlamaForCausalLM(config)
    tokens = torch.randint(64, (2, 10))
    assert torch.equal(CausalLanguageModel(llama)(tokens), llama(tokens).logits)


def test_a_library_that_cannot_be_imported_is_told_in_words(monkeypatch):
    # what Python has for a module that is not to be imported
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert all("--extra llm" in (entry.reason or "") for entry in language_model_entries())
    problem = refusal(build_model, TINY, image_size=0, channels=0, num_classes=16, seed=0)
    assert problem.key == "model" and "transformers, which cannot be imported" in problem.message
