"""What the words that remain on screen mean, a plain line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GLOSSARY: Mapping[str, str] = MappingProxyType(
    {
        "full precision": "Every number in the training is kept in its full length, 32 bits.",
        "mixed precision": "Most sums are done with numbers of 16 bits, the delicate ones still with 32.",
        "FP32": "Numbers of 32 bits, about 7 digits each: what training uses unless told otherwise.",
        "TF32": "Numbers of 32 bits that the card shortens to about 3 digits while it multiplies.",
        "FP16": "Numbers of 16 bits with about 3 digits, and a small range: tiny values can become zero.",
        "BF16": "Numbers of 16 bits with about 2 digits, and the same range as FP32.",
        "AMP": "Automatic mixed precision: PyTorch itself chooses which sums are done with 16 bits.",
        "batch": "How many images (or sequences, or samples) are trained on at once, in one step.",
        "peak memory": "The most memory that the training held at any moment.",
        "95 % interval": "Where the true figure lies, with 95 % confidence, going by repeated measurements.",
        "fast recipe": "Settings that speed training up beside the precision, such as compiling the model.",
        "plain recipe": "PyTorch's own settings: nothing is changed beside the precision.",
        "Tensor Cores": "Parts of an NVIDIA card that multiply many short numbers at once.",
    }
)
"""Each term and what it means, for people who do not code."""
