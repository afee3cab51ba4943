"""The built-in models and datasets: sizes, constructors and colors, for training and for exported scripts.

They are described without the libraries that read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.experiment.catalog import (
    ARRAYS,
    IMAGE_FOLDER,
    OWN_DATA,
    PYTHON_SOURCE,
    SYNTHETIC,
    SYNTHETIC_REGRESSION,
    SYNTHETIC_TOKENS,
    TEXT_FOLDER,
    DatasetEntry,
)


class LanguageSizes(NamedTuple):
    """The sizes of a Llama model, named as in its `LlamaConfig`."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int = 8_192

    def parameters(self, vocabulary: int) -> int:
        """Return the number of trainable parameters. Embedding and output projection are not tied."""
        hidden = self.hidden_size
        key_value = hidden // self.num_attention_heads * self.num_key_value_heads
        attention, norms = 2 * hidden * hidden + 2 * hidden * key_value, 2 * hidden
        layer = attention + 3 * hidden * self.intermediate_size + norms
        return self.num_hidden_layers * layer + hidden + 2 * vocabulary * hidden


# The last two are the sizes of Llama 3.2 1B and Llama 3.1 8B.
LANGUAGE_SIZES = {
    "causal-lm-tiny": LanguageSizes(128, 4, 4, 2, 384),
    "causal-lm-small": LanguageSizes(768, 12, 12, 4, 2_048),
    "causal-lm-medium": LanguageSizes(1_024, 24, 16, 4, 2_816),
    "causal-lm-1b": LanguageSizes(2_048, 16, 32, 8, 8_192, 131_072),
    "causal-lm-8b": LanguageSizes(4_096, 32, 32, 8, 14_336, 131_072),
}
USUAL_VOCABULARY = 32_000


def constructor_settings(name: str, image_size: int) -> dict[str, Any]:
    """Return the arguments of a model's constructor, besides its number of classes or vocabulary."""
    if name in LANGUAGE_SIZES:
        return LANGUAGE_SIZES[name]._asdict()
    if name.startswith("vit_"):
        return {"image_size": image_size}
    if name.startswith("maxvit"):
        return {"input_size": (image_size, image_size)}
    if name in ("googlenet", "inception_v3"):
        # Without auxiliary heads the output is one tensor; their own initialization takes half a minute.
        return {"aux_logits": False, "init_weights": False}
    return {}


@dataclass(frozen=True)
class Normalization:
    """The mean and standard deviation by channel to normalize images with, for pixel values from 0 to 1."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


FASHION, FAKEDATA = "fashion", "fakedata"
_FASHION = Normalization((0.2860,), (0.3530,))  # of the 60,000 training images
NORMALIZATIONS = {
    FASHION: _FASHION,
    "fashion-mnist": _FASHION,
    "mnist": Normalization((0.1307,), (0.3081,)),
    "cifar10": Normalization((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": Normalization((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    FAKEDATA: Normalization((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    # of ImageNet, as usual for photographs
    IMAGE_FOLDER: Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    # of integers. Floats are not normalized
    ARRAYS: Normalization((0.5,), (0.25,)),
}

FAKE_TRAIN_SAMPLES, FAKE_VALIDATION_SAMPLES = 2_000, 500
VALIDATION_SEQUENCES = 256
_IMAGES: dict[str, Any] = {"task": "classification", "image_size": 224, "channels": 3}
_LOADED: dict[str, Any] = {"can_augment": True, "loads": True}
_SMALL: dict[str, Any] = {**_IMAGES, **_LOADED, "validation_samples": 10_000}
_GRAY: dict[str, Any] = {**_SMALL, "image_size": 28, "channels": 1, "train_samples": 60_000}
_CIFAR: dict[str, Any] = {**_SMALL, "image_size": 32, "train_samples": 50_000}
_BYTES: dict[str, Any] = {"task": "language", "num_classes": 256, "validation_samples": VALIDATION_SEQUENCES}
DATASETS = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            name=FASHION,
            title="Fashion-MNIST, the built-in 7,000 images",
            num_classes=10,
            **{**_GRAY, "train_samples": 6_000, "validation_samples": 1_000},
        ),
        DatasetEntry(name="fashion-mnist", title="Fashion-MNIST, all 70,000 images", num_classes=10, **_GRAY),
        DatasetEntry(
            name="mnist", title="MNIST, handwritten digits", num_classes=10, **{**_GRAY, "can_augment": False}
        ),
        DatasetEntry(name="cifar10", title="CIFAR-10, small photos in 10 classes", num_classes=10, **_CIFAR),
        DatasetEntry(
            name="cifar100", title="CIFAR-100, small photos in 100 classes", num_classes=100, **_CIFAR
        ),
        DatasetEntry(
            name=SYNTHETIC,
            title="Synthetic images, generated on the device",
            num_classes=1_000,
            any_classes=True,
            **_IMAGES,
        ),
        DatasetEntry(
            name=FAKEDATA,
            title="Fake images, generated one by one, as real ones are loaded",
            num_classes=10,
            any_classes=True,
            train_samples=FAKE_TRAIN_SAMPLES,
            validation_samples=FAKE_VALIDATION_SAMPLES,
            **_IMAGES,
            **_LOADED,
        ),
        DatasetEntry(
            name=IMAGE_FOLDER, title="A folder of your own images", needs_path=True, **_IMAGES, **_LOADED
        ),
        DatasetEntry(
            name=SYNTHETIC_REGRESSION, title="Synthetic regression, 10 numbers to 1", task="regression"
        ),
        DatasetEntry(
            name=SYNTHETIC_TOKENS,
            title="Synthetic tokens, generated on the device",
            task="language",
            num_classes=USUAL_VOCABULARY,
            any_classes=True,
        ),
        DatasetEntry(name=PYTHON_SOURCE, title="Python's standard library, byte by byte", **_BYTES),
        DatasetEntry(
            name=TEXT_FOLDER, title="A folder of your own text, byte by byte", needs_path=True, **_BYTES
        ),
        DatasetEntry(
            name=ARRAYS,
            title="A file of your own arrays",
            task="own",
            any_classes=True,
            needs_path=True,
            **_LOADED,
        ),
        DatasetEntry(name=OWN_DATA, title="The model's own data", task="own"),
    )
}
"""By name, in the order of the catalog. Whether one must be downloaded, only the machine knows."""
