"""transformers' models: the default configuration of a type, with random weights and a head.

It is a causal language model if the type has one, else a classifier of images, of text or of sound. The last
two have no dataset in the catalog. They are trained on batches generated for them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import setting_problem
from engine.experiment.own.library_models import TRANSFORMERS, is_plain, may_set, override_of, override_value
from engine.experiment.problem import Problem, ProblemError, alternatives
from engine.training.models import libraries
from engine.training.models.forward import ForwardMixin, add_forward_mixin
from engine.training.models.libraries import AUDIO, CAUSAL, IMAGE, SEQUENCE, quiet, refusal

OVERRIDE = "Override that setting, as in --set model_config.hidden_size=256, or choose another model."

OWN_CLASSES = 10  # of made-up batches

_AUTO_CLASSES = {
    CAUSAL: "AutoModelForCausalLM",
    IMAGE: "AutoModelForImageClassification",
    SEQUENCE: "AutoModelForSequenceClassification",
    AUDIO: "AutoModelForAudioClassification",
}
SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
_ALSO_TAKEN = ("attn_implementation",)


@dataclass(frozen=True)
class Architecture:
    """A model of transformers to build: its configuration, its head, and its number of classes.

    For text, the number of classes is the vocabulary size.
    """

    head: str
    config: Any
    auto_class: Any
    classes: int

    @property
    def input_name(self) -> str:
        name: str = self.auto_class._model_mapping[type(self.config)].main_input_name
        return name

    @property
    def longest(self) -> int | None:
        """The maximum number of tokens for its positions, if known."""
        longest = getattr(text_config(self.config), "max_position_embeddings", None)
        is_of_text = self.head in (CAUSAL, SEQUENCE)
        return longest if is_of_text and isinstance(longest, int) and longest > 0 else None


def architecture_of(
    name: str, image_size: int, channels: int, num_classes: int, overrides: Sequence[str]
) -> Architecture:
    """Return a type's default configuration with overrides. Raises ProblemError.

    `num_classes` 0 means `OWN_CLASSES`.
    """
    library, kind = libraries.import_library(TRANSFORMERS.package), name.partition(":")[2]
    head, classes = libraries.heads_by_type()[kind], num_classes or OWN_CLASSES
    try:
        with quiet():
            default = library.CONFIG_MAPPING[kind]()
            settings = dict(_settings_here(head, default, image_size, channels, classes))
            settings |= dict(_typed(name, default, override) for override in overrides)
            config = type(default)(**_nested(settings))
            # of several classes for one head, an automatic one takes the first unless it finds None here
            config.architectures = config.architectures or []
            auto_class = getattr(library, _AUTO_CLASSES[head])
    except Exception as error:
        raise ProblemError(refusal(name, overrides, libraries.library_reason(error), OVERRIDE)) from error
    return Architecture(head, config, auto_class, classes)


def _settings_here(
    head: str, default: Any, image_size: int, channels: int, classes: int
) -> Iterator[tuple[str, Any]]:
    # those that the run decides, by dotted keys; only those that this configuration has
    wanted: dict[str, Any] = {"use_cache": False}
    if head == CAUSAL:
        wanted |= {"vocab_size": classes, **dict.fromkeys(SPECIAL_TOKENS, classes)}
    elif head == IMAGE:
        wanted |= {"image_size": image_size, "num_channels": channels}
    for key, value in wanted.items():
        for place, now in _places(default, key):
            if key in SPECIAL_TOKENS:
                # tokens are mere numbers here, but a table of embeddings has a row for each special one
                yield place, _below(now, classes)
            else:
                yield place, type(now)([value] * len(now)) if isinstance(now, list | tuple) else value
    if default.is_encoder_decoder and not hasattr(default, "decoder_start_token_id"):
        yield "decoder_start_token_id", getattr(default, "pad_token_id", None) or 0
    if head != CAUSAL:
        yield "num_labels", classes
    elif getattr(default, "is_decoder", True) is False:
        yield "is_decoder", True  # each token sees only those before it


def _below(token: Any, vocabulary: int) -> Any:
    if isinstance(token, list | tuple):
        return [_below(part, vocabulary) for part in token]
    return min(token, vocabulary - 1) if isinstance(token, int) else token


def _places(config: Any, key: str) -> Iterator[tuple[str, Any]]:
    if key in _own_keys(config):
        yield key, getattr(config, key)
        return
    for part, inner in _parts(config):
        yield from ((f"{part}.{place}", value) for place, value in _places(inner, key))


def _parts(config: Any) -> Iterator[tuple[str, Any]]:
    for part in getattr(config, "sub_configs", {}):
        inner = getattr(config, part, None)
        if inner is not None:
            yield part, inner


def _own_keys(config: Any) -> set[str]:
    return {*config.to_dict(), *getattr(config, "attribute_map", {}), *_ALSO_TAKEN}


def all_keys(config: Any) -> Iterator[str]:
    """Return the dotted keys that can be overridden."""
    yield from filter(may_set, _own_keys(config))
    for part, inner in _parts(config):
        yield from (f"{part}.{key}" for key in all_keys(inner))


_KINDS = ((bool, "true or false"), (int, "a whole number"), (float, "a number"))


def _typed(name: str, default: Any, override: str) -> tuple[str, Any]:
    # its dotted key, and its value in the type of the configuration's own
    key, text = override_of(override)
    config = default
    *parts, last = key.split(".")
    for part in parts:
        config = None if config is None else dict(_parts(config)).get(part)
    if config is None or last not in _own_keys(config) or not may_set(last):
        raise ProblemError(_unknown(name, default, override, key))
    now, message, wanted = getattr(config, last, None), "", ""
    value = text if isinstance(now, str) else override_value(text)
    if isinstance(now, float) and type(value) is int:
        value = float(value)
    kind, words = next((known for known in _KINDS if isinstance(now, known[0])), (type(value), ""))
    if isinstance(now, list | tuple) and value is not None and not isinstance(value, list | tuple):
        message, wanted = f"but {last} of {name} is a list.", f"{key}={list(now)}"
    elif value is not None and type(value) is not kind:
        message, wanted = f"but {last} of {name} is {words}.", f"{key}={now}"
    if message:
        raise ProblemError(libraries.override_problem(override, message, f"Write it as {wanted}."))
    if not is_plain(value):
        raise ProblemError(libraries.unsafe_value_problem(override))
    return key, value


def _unknown(name: str, default: Any, override: str, key: str) -> Problem:
    keys = sorted(all_keys(default))
    last = key.rpartition(".")[2]
    near = [known for known in keys if known.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(key, keys, n=3, cutoff=0.6)
    remedy = f"Did you mean {alternatives(near)}?" if near else f"Remove it. Known keys: {', '.join(keys)}."
    return libraries.override_problem(
        override, f"but {name} has no setting '{key}' that can be set here.", remedy
    )


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *parts, last = key.split(".")
        table = tree
        for part in parts:
            table = table.setdefault(part, {})
        table[last] = value
    return tree


def text_config(config: Any) -> Any:
    """Return the text part of a configuration, or the configuration itself if it has no parts."""
    try:
        return config.get_text_config()
    except ValueError:  # there are several
        return config


_TRIED_TOKENS = 64  # a longer trial of a large model would take minutes
_POSITIONS_KEPT = 8
_WAVEFORM_SAMPLES = 16_000  # a second, as most of them sample it
_BYTES = 256  # the vocabulary of a type without one, which reads characters


class Logits(ForwardMixin):
    """A mixin that lets a model of transformers take one input tensor and return its logits as a tensor."""

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
    """Return a model with random float32 weights, on the CPU, tried on a small batch. Raises ProblemError."""
    architecture = architecture_of(name, image_size, channels, num_classes, overrides)
    longest = architecture.longest
    if longest is not None and sequence_length > longest:
        raise ProblemError(_too_long(sequence_length, f"{name} takes at most {longest:,}", longest))

    def construct() -> nn.Module:
        with quiet():
            model: nn.Module = architecture.auto_class.from_config(architecture.config)
        return model

    classes, inputs = architecture.classes, None
    problem: Problem | None = None
    try:
        model = add_forward_mixin(libraries.build_with_weights(name, construct, seed), Logits)
        inputs = _first_inputs(architecture, image_size, channels, sequence_length)
        logits = libraries.probe_outputs(model, inputs)
        expected = (*inputs.shape, classes) if architecture.head == CAUSAL else (len(inputs), classes)
        is_tensor = isinstance(logits, torch.Tensor) and logits.ndim == len(expected)
        are_logits = is_tensor and logits.shape[:-1] == expected[:-1] and logits.shape[-1] >= expected[-1]
        if logits is not None and not are_logits:
            why = "it returns something other than logits for the classes"
            problem = refusal(name, overrides, why, OVERRIDE)
    except Exception as error:  # noqa: BLE001 - an architecture refuses what it cannot take in any way
        reason = libraries.library_reason(error)
        is_long = inputs is not None and architecture.head != IMAGE and inputs.shape[-1] > _TRIED_TOKENS
        problem = refusal(name, overrides, reason, OVERRIDE)
        if is_long and "out of" in reason:  # bounds, or range
            why = f"{name} reserves some of its positions and takes fewer"
            problem = _too_long(sequence_length, why, sequence_length - _POSITIONS_KEPT)
    if problem is not None:
        raise ProblemError(problem)
    return model


def drawn_batch(
    name: str, samples: int, *, num_classes: int, sequence_length: int, overrides: Sequence[str], seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random tokens, waveforms or frames, and classes (samples,), on the host. Raises ProblemError."""
    architecture = architecture_of(name, 0, 0, num_classes, overrides)
    generator = torch.Generator().manual_seed(seed)
    inputs = _drawn_inputs(architecture, samples, sequence_length, generator)
    return inputs, torch.randint(architecture.classes, (samples,), generator=generator)


def _too_long(sequence_length: int, why: str, most: int) -> Problem:
    message = f"is {sequence_length:,}, but {why}."
    remedy = f"Set it to at most {most:,}, or override max_position_embeddings."
    return setting_problem(
        "sequence_length", message, remedy, value=sequence_length, allowed=f"2 to {most:,}"
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
    # without special ones, but for one at the end of each text, by which some models find it
    vocabulary = getattr(text_config(config), "vocab_size", _BYTES)
    special = {token for key in SPECIAL_TOKENS if isinstance(token := getattr(config, key, None), int)}
    plain = next(token for token in range(vocabulary) if token not in special)
    tokens = torch.randint(vocabulary, (samples, length), generator=generator)
    for token in special:
        tokens[tokens == token] = plain
    if isinstance(end := getattr(config, "eos_token_id", None), int):
        tokens[:, -1] = end
    return tokens
