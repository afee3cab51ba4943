"""Memory for time: activations that are recomputed in the backward pass, or wait in system memory."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from inspect import signature
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from engine.experiment.experiment import setting_error
from engine.experiment.settings import FULL, SELECTIVE
from engine.training.models.forward import ForwardMixin, add_forward_mixin, original_class
from engine.training.models.own import random_states

# the place of `dropout_p` among the arguments of fused attention
_DROPOUT_AT = {
    "_scaled_dot_product_flash_attention": 3,
    "_scaled_dot_product_flash_attention_for_cpu": 3,
    "_scaled_dot_product_efficient_attention": 5,
    "_scaled_dot_product_cudnn_attention": 5,
    "_scaled_dot_product_fused_attention_overrideable": 4,
}
_PRODUCTS = ("mm", "addmm", "convolution", "_scaled_mm")
# products of activations, such as attention scores, are recomputed: they may take the most memory


def _is_stored(_: object, function: Any, *args: Any, **settings: Any) -> bool:
    name = getattr(function, "_opname", "")
    place = _DROPOUT_AT.get(name)
    # stored, attention with dropout would leave other random numbers to what is recomputed after it
    draws = place is not None and len(args) > place and args[place] > 0
    return name in _PRODUCTS or (place is not None and not draws)


def _selective_contexts(is_stored: Callable[..., bool] = _is_stored) -> tuple[Any, Any]:
    contexts = create_selective_checkpoint_contexts(is_stored)  # type: ignore[no-untyped-call]
    return cast(tuple[Any, Any], contexts)


def _watched_contexts(changed: list[Any]) -> tuple[Any, Any]:
    # with the operators that change a stored result in place, which PyTorch does not see through views
    def is_stored(context: Any, function: Any, *args: Any, **settings: Any) -> bool:
        schema = getattr(function, "_schema", None)
        if schema is not None and schema.is_mutable:
            given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | settings
            written = [given.get(each.name) for each in schema.arguments if each.is_write]
            if _storages(written) & _storages(stored()):
                changed.append(function)
        return _is_stored(context, function, *args, **settings)

    def stored() -> list[Any]:
        # in wrappers, beside marks of what is recomputed; PyTorch 2.11 asks in the backward pass, too
        return [getattr(each, "val", None) for each in tree_leaves(getattr(forward(), "storage", ()))]

    contexts = _selective_contexts(is_stored)
    forward: Any = weakref.ref(contexts[0])  # which a cycle would keep alive, with what it stores
    return contexts


def _storages(value: Any) -> set[int]:
    return {each.untyped_storage()._cdata for each in tree_leaves(value) if isinstance(each, torch.Tensor)}


# since PyTorch 2.14, what is stored is offloaded too
_HOOKS = "respect_saved_tensors_hooks"
_OFFLOADED: dict[str, Any] = {_HOOKS: True} if _HOOKS in signature(checkpoint).parameters else {}

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class _Recomputed(ForwardMixin):
    draws_at_random: bool | None = None
    is_selective = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = super().forward
        if not (self.training and torch.is_grad_enabled()):
            return own(*args, **kwargs)
        if torch.compiler.is_compiling():
            # The compiler changes every buffer once, whatever it computes twice.
            if self.is_selective:
                return checkpoint(own, *args, use_reentrant=False, context_fn=_selective_contexts, **kwargs)
            return checkpoint(own, *args, use_reentrant=False, **kwargs)
        before = _random_states(self) if self.draws_at_random is None else ()
        # PyTorch refuses to recompute a cast that the forward pass took from the cache.
        with _uncached_casts() if self.is_selective else nullcontext():
            result = checkpoint(
                own,
                *map(_copied, args),
                use_reentrant=False,
                context_fn=self._contexts,
                # Reading the generator's state takes time and is not allowed during a capture.
                preserve_rng_state=self.draws_at_random is not False,
                **_OFFLOADED,
                **{name: _copied(value) for name, value in kwargs.items()},
            )
        if self.draws_at_random is None:
            self.draws_at_random = before != _random_states(self)
        return result

    def _contexts(self) -> tuple[Any, Any]:
        changed: list[Any] = []
        forward, again = _watched_contexts(changed) if self.is_selective else (nullcontext(), nullcontext())
        return forward, _statistics_kept(self, again, changed)


@contextmanager
def _uncached_casts() -> Iterator[None]:
    was_cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_cached)


class _SelectivelyRecomputed(_Recomputed):
    is_selective = True


def checkpoint_activations(model: nn.Module, kind: str = FULL) -> int:
    """Recompute the activations of the model's repeated blocks, or of its parts. Return their number.

    If `kind` is selective, results of matmuls with weights, convolutions and fused attention are stored.
    """
    is_selective = kind == SELECTIVE
    blocks = _repeated(model) or [child for child in model.children() if any(child.children())]
    for block in blocks:
        add_forward_mixin(block, _SelectivelyRecomputed if is_selective else _Recomputed)
        for part in block.modules() if is_selective else ():
            if getattr(part, "inplace", False):  # what is stored must stay as it is
                cast(Any, part).inplace = False
    return len(blocks)


def is_recomputed(module: nn.Module) -> bool:
    """Return True if `checkpoint_activations` recomputes the module."""
    return isinstance(module, _Recomputed)


def _repeated(model: nn.Module) -> list[nn.Module]:
    # the outermost modules whose class occurs several times, each with children of its own
    kinds = Counter(original_class(module) for module in model.modules() if _may_be_block(module))

    def below(parent: nn.Module) -> Iterator[nn.Module]:
        for child in parent.children():
            if kinds[original_class(child)] > 1:
                yield child
            else:
                yield from below(child)

    return list(dict.fromkeys(below(model)))


def _may_be_block(module: nn.Module) -> bool:
    is_empty = not [*module.children()] or not [*module.parameters()]
    return not is_empty and not isinstance(module, _CONTAINERS)


def _copied(value: Any) -> Any:
    # lists and dicts, not tensors: a DenseNet appends to the list that it has passed on
    if isinstance(value, list):
        return [_copied(part) for part in value]
    return {key: _copied(part) for key, part in value.items()} if isinstance(value, dict) else value


@contextmanager
def _statistics_kept(
    block: nn.Module, recomputing: AbstractContextManager[Any], changed: Sequence[Any]
) -> Iterator[None]:
    if changed:
        message = "is selective, but the model changes a stored result in place."
        remedy = "Set it to full for this model."
        raise setting_error("step.activation_checkpointing", message, remedy, value=SELECTIVE)
    # normalisations write to copies: the first forward pass has already updated their statistics
    norms = (module for module in block.modules() if isinstance(module, _NormBase))
    all_of_them = ((norm, name, getattr(norm, name)) for norm in norms for name in _STATISTICS)
    own = [entry for entry in all_of_them if entry[2] is not None]
    for module, name, statistic in own:
        setattr(module, name, statistic.clone())
    try:
        with recomputing:
            yield
    finally:
        for module, name, statistic in own:
            setattr(module, name, statistic)


_LEAST_OFFLOADED = 1_024
# what autocast and a linear layer do to a weight
_OF_WEIGHTS = ("ToCopyBackward0", "TBackward0", "TransposeBackward0", "PermuteBackward0")
_PINNED_FOR = ("cuda", "xpu")


class Offload(saved_tensors_hooks):
    """A context that moves stored activations to system memory until the backward pass needs them.

    Weights, autocast's copies of them, and tensors with fewer than 1,024 elements stay on the device. Unlike
    `save_on_cpu`, it keeps the layout of tensors and does not synchronize, since copies to page-locked memory
    stay in the stream's order. Of fake tensors only the size is kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self._weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
        super().__init__(self._pack, lambda packed: packed() if isinstance(packed, partial) else packed)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor | partial[torch.Tensor]:
        is_plain = tensor.layout is torch.strided and not is_traceable_wrapper_subclass(tensor)
        if is_plain and self._is_weight(tensor):
            return tensor
        if not is_plain or tensor.numel() < _LEAST_OFFLOADED:
            return tensor.detach()  # a result that its own node holds is never freed
        if isinstance(tensor, FakeTensor):
            return partial(torch.empty_strided, tensor.shape, tensor.stride(), dtype=tensor.dtype)
        kept = torch.empty_like(tensor, device="cpu", pin_memory=tensor.device.type in _PINNED_FOR)
        kept.copy_(tensor, non_blocking=True)
        return partial(kept.to, tensor.device, non_blocking=True)

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        node: Any = tensor.grad_fn
        while node is not None and node.name() in _OF_WEIGHTS:
            node = node.next_functions[0][0]
        sources = (tensor, getattr(node, "variable", tensor))
        return any(source.untyped_storage()._cdata in self._weights for source in sources)


def _random_states(block: nn.Module) -> tuple[bytes, ...]:
    weight = next(block.parameters())
    if isinstance(weight, FakeTensor):
        return ()  # a forecast computes and draws nothing
    return tuple(state.numpy().tobytes() for state in random_states(weight.device).values())
