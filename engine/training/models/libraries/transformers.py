"""transformers' models: the default configuration of a type, with random weights and a head.

A causal language model where the type has one, else a classifier of pictures, of text or of sound. The last
two have no dataset in the catalog: they are trained on batches drawn for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from engine.experiment.problem import Problem, ProblemError
from engine.experiment.titles import setting_problem
from engine.training.models.around import Around, put_around
from engine.training.models.libraries.building import (
    library_reason,
    outputs_for,
    quiet,
    refusal,
    with_weights,
)
from engine.training.models.libraries.configuration import (
    OVERRIDE,
    SPECIAL_TOKENS,
    Architecture,
    architecture_of,
    text_config,
)
from engine.training.models.libraries.names import CAUSAL, IMAGE

_TRIED_TOKENS = 64  # a longer trial of a large model would take minutes
_POSITIONS_KEPT = 8
_WAVEFORM_SAMPLES = 16_000  # a second, as most of them sample it
_BYTES = 256  # the vocabulary of a type without one, which reads characters


class Logits(Around):
    """Takes the inputs alone, under the name that the model has for them, and returns the logits alone."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = super().forward(**{str(self.main_input_name): inputs})
        logits: torch.Tensor = outputs.logits
        return logits


def build_transformers_model(
    name: str,
    *,
    image_size: int,
    channels: int,
    num_classes: int,
    sequence_length: int,
    overrides: Sequence[str],
    seed: int,
) -> nn.Module:
    """The model with random float32 weights, on the CPU; reseeds torch's global generator.

    For text `num_classes` is the vocabulary; for batches drawn for the model it may be 0. A small batch is
    tried on the model. Raises ProblemError where the machine has too little memory, or the architecture does
    not take what is asked of it.
    """
    architecture = architecture_of(name, image_size, channels, num_classes, overrides)
    _check_length(name, architecture, sequence_length)

    def construct() -> nn.Module:
        with quiet():
            model: nn.Module = architecture.auto_class.from_config(architecture.config)
        return model

    classes, inputs = architecture.classes, None
    problem: Problem | None = None
    try:
        model = put_around(with_weights(name, construct, seed), Logits)
        inputs = _first_inputs(architecture, image_size, channels, sequence_length)
        logits = outputs_for(model, inputs)
        expected = (*inputs.shape, classes) if architecture.head == CAUSAL else (len(inputs), classes)
        if logits is not None and not _are_logits(logits, expected):
            problem = refusal(
                name, overrides, "it returns something other than logits for the classes", OVERRIDE
            )
    except Exception as error:  # noqa: BLE001 - an architecture refuses what it cannot take in any way
        reason = library_reason(error)
        is_long = inputs is not None and architecture.head != IMAGE and inputs.shape[-1] > _TRIED_TOKENS
        is_length = is_long and "out of" in reason  # bounds, or range
        problem = (
            _too_long(name, sequence_length) if is_length else refusal(name, overrides, reason, OVERRIDE)
        )
    if problem is not None:
        raise ProblemError(problem)
    return model


def drawn_batch(
    name: str, samples: int, *, num_classes: int, sequence_length: int, overrides: Sequence[str], seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs and classes (samples,), on the host, for a classifier of text or sound without a dataset.

    Text is tokens (samples, sequence_length), sound a waveform of a second, or frames of features if the
    model takes these. Raises ProblemError for overrides that the model does not take.
    """
    architecture = architecture_of(name, 0, 0, num_classes, overrides)
    generator = torch.Generator().manual_seed(seed)
    inputs = _drawn_inputs(architecture, samples, sequence_length, generator)
    return inputs, torch.randint(architecture.classes, (samples,), generator=generator)


def _check_length(name: str, architecture: Architecture, sequence_length: int) -> None:
    longest = architecture.longest
    if longest is not None and sequence_length > longest:
        raise ProblemError(
            setting_problem(
                "sequence_length",
                f"is {sequence_length:,}, but {name} takes at most {longest:,}.",
                f"Set it to at most {longest:,}, or override max_position_embeddings.",
                value=sequence_length,
                allowed=f"2 to {longest:,}",
            )
        )


def _too_long(name: str, sequence_length: int) -> Problem:
    shorter = sequence_length - _POSITIONS_KEPT
    return setting_problem(
        "sequence_length",
        f"is {sequence_length:,}, but {name} keeps some of its positions for itself and takes fewer.",
        f"Set it to at most {shorter:,}, or override max_position_embeddings.",
        value=sequence_length,
        allowed=f"2 to {shorter:,}",
    )


def _first_inputs(
    architecture: Architecture, image_size: int, channels: int, sequence_length: int
) -> torch.Tensor:
    if architecture.head == IMAGE:
        return torch.zeros(2, channels, image_size, image_size)
    generator, longest = torch.Generator().manual_seed(0), architecture.longest
    # an architecture may keep a few of its positions for itself, and a GPU says so only by crashing
    is_near = longest is not None and sequence_length > longest - _POSITIONS_KEPT
    tokens = sequence_length if is_near else min(sequence_length, _TRIED_TOKENS)
    return _drawn_inputs(architecture, 1 if architecture.head == CAUSAL else 2, tokens, generator)


def _drawn_inputs(
    architecture: Architecture, samples: int, sequence_length: int, generator: torch.Generator
) -> torch.Tensor:
    config = architecture.config
    if architecture.input_name == "input_ids":
        return _drawn_tokens(config, samples, sequence_length, generator)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        shape: tuple[int, ...] = (samples, config.max_length, config.num_mel_bins)
    elif hasattr(config, "feature_projection_input_dim"):
        shape = (samples, sequence_length, config.feature_projection_input_dim)
    else:
        shape = (samples, _WAVEFORM_SAMPLES)
    return torch.randn(shape, generator=generator)


def _drawn_tokens(config: Any, samples: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Tokens without special ones, but for one at the end of each text, by which some models find it."""
    vocabulary = getattr(text_config(config), "vocab_size", _BYTES)
    special = {token for key in SPECIAL_TOKENS if isinstance(token := getattr(config, key, None), int)}
    plain = next(token for token in range(vocabulary) if token not in special)
    tokens = torch.randint(vocabulary, (samples, length), generator=generator)
    for token in special:
        tokens[tokens == token] = plain
    if isinstance(end := getattr(config, "eos_token_id", None), int):
        tokens[:, -1] = end
    return tokens


def _are_logits(logits: Any, expected: tuple[int, ...]) -> bool:
    if not isinstance(logits, torch.Tensor) or logits.ndim != len(expected):
        return False
    return logits.shape[:-1] == expected[:-1] and logits.shape[-1] >= expected[-1]
