"""The models: two small ones, torchvision's, language models, those of other libraries, and the losses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.experiment.checks import ModelEntry, Task
from engine.experiment.own.library_models import ModelRef
from engine.training.models.language import SHAPES, build_language_model, language_model_entries
from engine.training.models.outputs import LossFunction
from engine.training.models.timm import build_timm_model, is_timm_model
from engine.training.models.transformers import build_transformers_model


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
    if name in SHAPES:
        return build_language_model(name, vocabulary=num_classes, seed=seed)
    torch.manual_seed(seed)
    if name == LINEAR:
        return nn.Linear(*sizes)
    if name == SMALL_CNN:
        return SmallCnn(channels, num_classes)
    model: nn.Module = torchvision.models.get_model(
        name, weights=None, num_classes=num_classes, **_constructor_settings(name, image_size)
    )
    return model


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _convolution(channels_in: int, channels_out: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()


def _constructor_settings(name: str, image_size: int) -> dict[str, Any]:
    if name.startswith("vit_"):
        return {"image_size": image_size}
    if name.startswith("maxvit"):
        return {"input_size": (image_size, image_size)}
    if name in ("googlenet", "inception_v3"):
        # Without auxiliary heads the output is one tensor; their own initialisation takes half a minute.
        return {"aux_logits": False, "init_weights": False}
    return {}


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
