"""Causal language models: Llama's architecture in sizes from tiny to 8 billion, with random weights.

`transformers`, an optional extra, builds them from a configuration. It takes seconds to import, so it is
imported only to build such a model. It never downloads anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from engine.experiment.checks import ModelEntry
from engine.experiment.own.library_models import TRANSFORMERS
from engine.training.models.libraries import check_host_memory, import_library, quiet

USUAL_VOCABULARY = 32_000


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama model. Queries have `heads` attention heads, keys and values `key_value_heads`."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    feed_forward: int
    max_sequence_length: int = 8_192

    def parameters(self, vocabulary: int) -> int:
        """Return the number of trainable parameters. Embedding and output projection are not tied."""
        key_value = self.hidden // self.heads * self.key_value_heads
        attention = 2 * self.hidden * self.hidden + 2 * self.hidden * key_value
        norms = 2 * self.hidden
        layer = attention + 3 * self.hidden * self.feed_forward + norms
        return self.layers * layer + self.hidden + 2 * vocabulary * self.hidden


# The last two are the shapes of Llama 3.2 1B and Llama 3.1 8B.
SHAPES = {
    "causal-lm-tiny": Shape(128, 4, 4, 2, 384),
    "causal-lm-small": Shape(768, 12, 12, 4, 2_048),
    "causal-lm-medium": Shape(1_024, 24, 16, 4, 2_816),
    "causal-lm-1b": Shape(2_048, 16, 32, 8, 8_192, 131_072),
    "causal-lm-8b": Shape(4_096, 32, 32, 8, 14_336, 131_072),
}


class Decoder(nn.Module):
    """The embedding and layers of a Llama model, from int64 tokens to (batch, sequence, hidden)."""

    def __init__(self, llama: Any) -> None:
        super().__init__()
        self.embed_tokens, self.layers = llama.embed_tokens, llama.layers
        self.norm, self.rotary_emb = llama.norm, llama.rotary_emb

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        # LlamaModel's own forward looks for packed sequences, which makes the host wait in every step.
        # Without a mask each layer attends causally with the fastest kernel.
        hidden: torch.Tensor = self.embed_tokens(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        rotation = self.rotary_emb(hidden, position_ids=positions)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=None, position_embeddings=rotation)
        normalised: torch.Tensor = self.norm(hidden)
        return normalised


class CausalLanguageModel(nn.Module):
    """A Llama model with random weights, from tokens to logits (batch, sequence, vocabulary).

    Its submodules have the names of `LlamaForCausalLM`.
    """

    def __init__(self, llama: Any) -> None:
        super().__init__()
        self.model = Decoder(llama.model)
        self.lm_head = llama.lm_head

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.lm_head(self.model(tokens))
        return logits


def language_model_entries() -> tuple[ModelEntry, ...]:
    """Return all sizes. Parameters are computed by formula for a vocabulary of 32,000."""
    missing = TRANSFORMERS.missing if find_spec(TRANSFORMERS.package) is None else None
    return tuple(
        ModelEntry(
            name=name,
            task="language",
            parameters=shape.parameters(USUAL_VOCABULARY),
            family="Language models",
            max_sequence_length=shape.max_sequence_length,
            reason=missing,
        )
        for name, shape in SHAPES.items()
    )


def build_language_model(name: str, *, vocabulary: int, seed: int) -> nn.Module:
    """Return a model with random float32 weights, on the CPU. Reseeds torch. Raises ProblemError."""
    check_host_memory(name, SHAPES[name].parameters(vocabulary))
    with quiet():
        return CausalLanguageModel(_llama(SHAPES[name], vocabulary, seed))


def _llama(shape: Shape, vocabulary: int, seed: int) -> Any:
    library = import_library(TRANSFORMERS.package)
    torch.manual_seed(seed)
    config = library.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=shape.max_sequence_length,
        use_cache=False,
        tie_word_embeddings=False,
        # tokens are mere numbers here: none begins or ends a text
        **dict.fromkeys(("bos_token_id", "eos_token_id")),
        attn_implementation="sdpa",
    )
    return library.LlamaForCausalLM(config)
