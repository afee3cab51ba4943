"""The models: two small ones, torchvision's, language models, those of other libraries, and the losses."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.experiment.built_in import LANGUAGE_SIZES, USUAL_VOCABULARY, constructor_settings
from engine.experiment.checks import ModelEntry, Task
from engine.experiment.experiment import setting_problem
from engine.experiment.own.library_models import (
    TIMM,
    TRANSFORMERS,
    ModelRef,
    is_plain,
    may_set,
    override_of,
    override_value,
)
from engine.experiment.problem import Problem, ProblemError, alternatives
from engine.training.models import libraries
from engine.training.models.libraries import check_host_memory, import_library, quiet, refusal
from engine.training.models.outputs import LossFunction
from engine.training.models.transformers import build_transformers_model
from engine.training.models.weightless import Weightless

_UNKNOWN = re.compile(r"unexpected keyword argument(?:\(s\))?:? \[?'(\w+)'")
_SET_HERE = ("num_classes", "in_chans", "img_size")
_NOT_ITS_OWN = frozenset({*_SET_HERE, "features_only", "out_indices", "pretrained_strict", "self"})


def is_timm_model(name: str) -> bool:
    return name.startswith(f"{TIMM.prefix}:")


def build_timm_model(
    name: str, *, image_size: int, channels: int, num_classes: int, overrides: Sequence[str], seed: int
) -> nn.Module:
    """Return a classifier with random weights, on the CPU, tried on two images. Raises ProblemError."""
    timm = libraries.import_library(TIMM.package)
    settings = {"num_classes": num_classes, "in_chans": channels, **_arguments(timm, name, overrides)}

    def construct() -> nn.Module:
        with quiet():
            try:
                return _created(timm, name, {**settings, "img_size": image_size})
            except TypeError as error:
                if "img_size" not in str(error):
                    raise
            # an architecture whose weights do not depend on the size
            torch.manual_seed(seed)
            return _created(timm, name, settings)

    problem: Problem | None = None
    try:
        model = libraries.build_with_weights(name, construct, seed)
        logits = libraries.probe_outputs(model, torch.zeros(2, channels, image_size, image_size))
        if logits is not None and getattr(logits, "shape", None) != (2, num_classes):
            problem = _refused(timm, name, image_size, overrides, "it returns something other than logits")
    except Exception as error:  # noqa: BLE001 - an architecture refuses a size in any way
        unknown = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
        if unknown is not None:
            problem = _not_taken(timm, name, unknown[1], overrides)
        else:
            problem = _refused(timm, name, image_size, overrides, libraries.library_reason(error))
    if problem is not None:
        raise ProblemError(problem)
    return model


def _created(timm: Any, name: str, settings: dict[str, Any]) -> nn.Module:
    model: nn.Module = timm.create_model(name.partition(":")[2], pretrained=False, **settings)
    return model


def _arguments(timm: Any, name: str, overrides: Sequence[str]) -> dict[str, Any]:
    arguments = {}
    for override in overrides:
        key, text = override_of(override)
        value = override_value(text)
        if key in _NOT_ITS_OWN:
            message = f"but {key} is set by the dataset or by Ammeter."
            raise ProblemError(libraries.override_problem(override, message, f"Remove {key}."))
        if not may_set(key) or "." in key:
            raise ProblemError(_not_taken(timm, name, key, overrides))
        if not is_plain(value):
            raise ProblemError(libraries.unsafe_value_problem(override))
        arguments[key] = value
    return arguments


def _not_taken(timm: Any, name: str, key: str, overrides: Sequence[str]) -> Problem:
    names: list[str] = []
    with suppress(Exception), Weightless(), quiet():
        model = _created(timm, name, {})
        names = sorted(filter(may_set, set(inspect.signature(type(model)).parameters) - _NOT_ITS_OWN))
    near = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    override = next((text for text in overrides if override_of(text)[0] == key), key)
    remedy = f"Did you mean {alternatives(near)}?" if near else f"Remove {key}."
    if names and not near:
        remedy += f" It takes {', '.join(names)}."
    return libraries.override_problem(
        override, f"but {name} has no setting of that name that can be set here.", remedy
    )


def _refused(timm: Any, name: str, image_size: int, overrides: Sequence[str], reason: str) -> Problem:
    published = timm.get_pretrained_cfg(name.partition(":")[2])
    size = None if published is None else published.input_size[-1]
    if size not in (None, image_size):
        also = ", or change the model settings" if overrides else ""
        message = f"is {image_size}, but {name} cannot take it: {reason}."
        remedy = f"Set it to {size}, for which {name} was made{also}. Images are then resized."
        return setting_problem("image_size", message, remedy, value=image_size)
    return refusal(name, overrides, reason, "Choose another model.")


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
            parameters=sizes.parameters(USUAL_VOCABULARY),
            family="Language models",
            max_sequence_length=sizes.max_position_embeddings,
            reason=missing,
        )
        for name, sizes in LANGUAGE_SIZES.items()
    )


def build_language_model(name: str, *, vocabulary: int, seed: int) -> nn.Module:
    """Return a model with random float32 weights, on the CPU. Reseeds torch. Raises ProblemError."""
    check_host_memory(name, LANGUAGE_SIZES[name].parameters(vocabulary))
    with quiet():
        return CausalLanguageModel(_llama(name, vocabulary, seed))


def _llama(name: str, vocabulary: int, seed: int) -> Any:
    library = import_library(TRANSFORMERS.package)
    torch.manual_seed(seed)
    config = library.LlamaConfig(
        **constructor_settings(name, image_size=0),
        vocab_size=vocabulary,
        use_cache=False,
        tie_word_embeddings=False,
        # tokens are mere numbers here: none begins or ends a text
        **dict.fromkeys(("bos_token_id", "eos_token_id")),
        attn_implementation="sdpa",
    )
    return library.LlamaForCausalLM(config)


def build_loss(task: Task, label_smoothing: float = 0.0) -> LossFunction:
    """Return the mean loss over a batch's samples, or over all tokens of its sequences."""
    if task == "regression":
        return mse_loss
    if task == "language":
        return partial(_token_loss, label_smoothing=label_smoothing)
    return partial(cross_entropy, label_smoothing=label_smoothing)


def loss_name(task: Task) -> str:
    """Return the name of the loss, such as "cross-entropy"."""
    return "mean squared error" if task == "regression" else "cross-entropy"


def loss_unit(task: Task) -> str:
    """Return the unit of the loss, empty without one."""
    return "" if task == "regression" else "nats"


def _token_loss(logits: torch.Tensor, targets: torch.Tensor, *, label_smoothing: float) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=label_smoothing)


LINEAR, SMALL_CNN = "linear", "small-cnn"
REGRESSION_FEATURES = 10
_SMALLEST_PICTURE = 8
# torchvision names these sizes for its weights; the architectures themselves take any size.
_ANY_SIZE = ("swin", "efficientnet_v2")
# channels_last helps convolutions: the first has none, the second a single one before its attention.
_NOT_CONVOLUTIONAL = ("vit_", "swin")
_SMALL = "Small models"
# by the module of torchvision that builds them
_FAMILIES = {
    **{
        name.lower(): name
        for name in ("AlexNet", "ConvNeXt", "DenseNet", "EfficientNet", "MNASNet", "RegNet")
    },
    **{name.lower(): name for name in ("ResNet", "SqueezeNet", "VGG")},
    **dict.fromkeys(("googlenet", "inception"), "Inception"),
    **dict.fromkeys(("mobilenetv2", "mobilenetv3"), "MobileNet"),
    "maxvit": "MaxViT",
    "shufflenetv2": "ShuffleNet",
    "swin_transformer": "Swin Transformer",
    "vision_transformer": "Vision Transformer",
}
# torchvision's count includes the auxiliary head, which is not built here
_INCEPTION_HEAD = 3_326_696
_MAXVIT_MULTIPLE = 224  # each of its four halvings must leave a multiple of its windows of 7


class SmallCnn(nn.Module):
    """A small CNN to classify images (batch, channels, height, width) of 8 or more pixels per side."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(channels, 32),
            nn.MaxPool2d(2),
            *_convolution(32, 64),
            nn.MaxPool2d(2),
            *_convolution(64, 128),
            *_convolution(128, 128),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classifier = nn.Linear(128 * 4 * 4, num_classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.features(pictures).flatten(1))
        return logits


def model_entries() -> tuple[ModelEntry, ...]:
    """Return all models. Parameter counts come from torchvision's own tables and formulas."""
    return (
        ModelEntry(name=LINEAR, task="regression", parameters=REGRESSION_FEATURES + 1, family=_SMALL),
        ModelEntry(
            name=SMALL_CNN,
            task="classification",
            parameters=count_parameters(SmallCnn(channels=1, num_classes=10)),
            family=_SMALL,
            min_image_size=_SMALLEST_PICTURE,
            is_convolutional=True,
        ),
        *(_torchvision_entry(name) for name in torchvision.models.list_models(module=torchvision.models)),
        *language_model_entries(),
    )


def input_channels(name: str, dataset_channels: int) -> int:
    """Return the model's input channels: three for torchvision's models, the dataset's for others."""
    return dataset_channels if name == SMALL_CNN or ModelRef(name).library is not None else 3


def build_model(
    name: str,
    *,
    image_size: int,
    channels: int,
    num_classes: int,
    seed: int,
    sequence_length: int = 0,
    sizes: tuple[int, int] = (REGRESSION_FEATURES, 1),
    overrides: Sequence[str] = (),
) -> nn.Module:
    """Return a model on the CPU, its weights random by the seed and the settings. Raises ProblemError."""
    of_library = {"image_size": image_size, "channels": channels, "num_classes": num_classes, "seed": seed}
    if is_timm_model(name):
        return build_timm_model(name, overrides=overrides, **of_library)
    if ModelRef(name).library is not None:
        return build_transformers_model(
            name, sequence_length=sequence_length, overrides=overrides, **of_library
        )
    if name in LANGUAGE_SIZES:
        return build_language_model(name, vocabulary=num_classes, seed=seed)
    torch.manual_seed(seed)
    if name == LINEAR:
        return nn.Linear(*sizes)
    if name == SMALL_CNN:
        return SmallCnn(channels, num_classes)
    model: nn.Module = torchvision.models.get_model(
        name, weights=None, num_classes=num_classes, **constructor_settings(name, image_size)
    )
    return model


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _convolution(channels_in: int, channels_out: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()


@cache
def _torchvision_entry(name: str) -> ModelEntry:
    # some also have weights for larger pictures, with more parameters for positions
    every = [weights.meta for weights in torchvision.models.get_model_weights(name)]
    published = min(every, key=lambda meta: int(meta["num_params"]))
    least, multiple = _picture_sizes(name, min(every[0]["min_size"]))
    module = torchvision.models.get_model_builder(name).__module__.rpartition(".")[2]
    return ModelEntry(
        name=name,
        task="classification",
        parameters=published["num_params"] - (_INCEPTION_HEAD if name == "inception_v3" else 0),
        family=_FAMILIES.get(module, module),
        min_image_size=least,
        image_size_multiple=multiple,
        is_convolutional=not name.startswith(_NOT_CONVOLUTIONAL),
    )


def _picture_sizes(name: str, published_least: int) -> tuple[int, int | None]:
    if patch := re.fullmatch(r"vit_\w_(\d+)", name):
        return int(patch[1]), int(patch[1])
    if name.startswith("maxvit"):
        return _MAXVIT_MULTIPLE, _MAXVIT_MULTIPLE
    if name.startswith(_ANY_SIZE):
        return _SMALLEST_PICTURE, None
    return max(_SMALLEST_PICTURE, published_least), None
