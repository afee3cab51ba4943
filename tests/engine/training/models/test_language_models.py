"""The language models are Llama's own, counted without being built, and never make the host wait."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from engine.training.models.build import (
    SHAPES,
    USUAL_VOCABULARY,
    CausalLanguageModel,
    build_language_model,
    build_model,
    count_parameters,
    language_model_entries,
)
from tests.engine.training.conftest import refusal

TINY = "causal-lm-tiny"


@pytest.fixture(scope="module")
def tiny() -> Iterator[nn.Module]:
    yield build_language_model(TINY, vocabulary=256, seed=3)


def test_parameters_are_counted_as_they_are_built(tiny: nn.Module) -> None:
    assert count_parameters(tiny) == SHAPES[TINY].parameters(256)
    entries = {entry.name: entry.parameters for entry in language_model_entries()}
    assert entries[TINY] == SHAPES[TINY].parameters(USUAL_VOCABULARY) < 10_000_000


def test_the_sizes_grow_from_tiny_to_that_of_llama_3_1_8b() -> None:
    assert SHAPES["causal-lm-8b"].parameters(128_256) == 8_030_261_248
    counts = [entry.parameters for entry in language_model_entries()]
    assert counts == sorted(counts) and len(counts) == 5
    assert all(entry.reason is None and entry.max_sequence_length for entry in language_model_entries())


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
