"""Kernels of `scaled_dot_product_attention`: the one to use, those that ran, and impossible ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.experiment.experiment import setting_error
from engine.experiment.settings import AttentionKernel

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
_NONE_FITS = re.compile(r"No (available kernel|viable backend for scaled_dot_product)")


@contextmanager
def attention_kernel(name: AttentionKernel) -> Iterator[None]:
    """Use only this kernel in all threads of the process, or with "auto" the one that PyTorch chooses.

    Raises ProblemError where the kernel cannot compute an attention.
    """
    if name == "auto":
        yield
        return
    try:
        with sdpa_kernel(_BACKENDS[name]):
            yield
    except RuntimeError as error:
        if not _NONE_FITS.search(str(error)):
            raise
        message = f"is '{name}', which cannot compute an attention of this model here."
        remedy = "Choose auto. Check names the kernels that are impossible, with the reasons."
        raise setting_error("step.attention", message, remedy, value=name) from error


_FUSED = re.compile(r"_scaled_dot_product_(flash|efficient|cudnn|fused)_attention(?!.*backward)")


def kernel_of(operator: str) -> str | None:
    """Return the kernel of a forward operator by its ATen name without namespace. None for other operators.

    The math kernel is recognized by `_safe_softmax`, which no other computation calls.
    """
    if operator == "_safe_softmax":
        return "math"
    found = _FUSED.match(operator)
    return None if found is None else found[1]


class AttentionCall(NamedTuple):
    """A call of `scaled_dot_product_attention`. Its parameters have PyTorch's names."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def impossible(self, device: torch.device, *, is_narrow: bool) -> dict[str, str]:
        """Return the kernels that cannot compute the call on the device, each with the reason as a clause.

        The tensors are on the CPU. With `is_narrow`, autocast or the code casts them to 16 bits.
        """
        if device.type == "cpu":
            reason = self._refusal()
            return {"flash": reason} if reason else {}
        if device.type != "cuda":
            return {}
        # without a GPU here, one that has all kernels
        capability = torch.cuda.get_device_capability(device) if torch.cuda.is_available() else (10, 0)
        kernels = {"flash": self._flash(is_narrow, capability), "efficient": self._efficient(is_narrow)}
        kernels["cudnn"] = self._cudnn(is_narrow, capability)
        if capability < (8, 0):
            kernels |= dict.fromkeys(("flash", "cudnn"), "the GPU is older than Ampere")
        return {name: reason for name, reason in kernels.items() if reason}

    def _refusal(self) -> str:
        # PyTorch's own words for why flash is impossible on a CPU
        with warnings.catch_warnings(record=True, action="always") as said, sdpa_kernel(_BACKENDS["flash"]):
            try:
                torch._fused_sdp_choice(*self[:6], scale=self.scale, enable_gqa=self.enable_gqa)
            except RuntimeError:
                reasons = [str(one.message).partition(" (Triggered")[0].strip(". ") for one in said]
                return reasons[-1] if len(reasons) > 1 else "the mask has an unsupported shape"
        return ""

    # after `can_use_*_attention` in ATen/native/transformers/cuda/sdp_utils.cpp of PyTorch 2.15

    def _flash(self, is_narrow: bool, capability: tuple[int, int]) -> str:
        if not is_narrow:
            return _NOT_NARROW
        if self.attn_mask is not None:
            return "the attention has a mask"
        if self.is_causal and self.query.shape[-2] != self.key.shape[-2]:
            return "a causal mask needs as many queries as keys"
        heads = {part.shape[-1] for part in self[:3]}
        if len(heads) > 1 or max(heads) > 256:
            return "the head sizes differ or are over 256"
        is_small = (8, 6) <= capability <= (8, 9) or capability[0] == 12
        if is_small and max(heads) > 192 and (self.dropout_p or max(heads) <= 224):
            return _NO_SUCH_HEAD.format(max(heads)) + " with dropout" * (max(heads) > 224)
        return ""

    def _efficient(self, is_narrow: bool) -> str:
        multiple = 8 if is_narrow else 4
        is_odd = any(part.shape[-1] % multiple for part in self[:3])
        return f"the head size is not a multiple of {multiple}" if is_odd else ""

    def _cudnn(self, is_narrow: bool, capability: tuple[int, int]) -> str:
        if not is_narrow:
            return _NOT_NARROW
        if self.dropout_p * 16 % 1:
            return "the dropout is not a multiple of 1/16"
        if self.key.shape[-2] == 1:
            return "there is only one key"
        if any(part.shape[-1] % 8 for part in self[:3]):
            return "the head size is not a multiple of 8"
        heads = self.query.shape[-1], self.value.shape[-1]
        is_possible = max(heads) <= 128 or heads in _wide_heads(capability)
        return "" if is_possible else _NO_SUCH_HEAD.format(max(heads))


def _wide_heads(capability: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the head sizes over 128 that cuDNN trains on a GPU: that of queries and that of values."""
    version = torch.backends.cudnn.version() or 0  # type: ignore[no-untyped-call]
    if version < 91100 or (capability != (9, 0) and capability[0] != 10):
        return ()
    has_256 = version > (92500 if capability == (10, 7) else 92200)
    return ((192, 128), (256, 256)) if has_256 else ((192, 128),)


_NOT_NARROW = "the kernel supports only 16-bit inputs"
_NO_SUCH_HEAD = "this GPU cannot train a head size of {}"
