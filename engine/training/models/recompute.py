"""Activation checkpointing: activations are made again in the backward pass, and not kept until then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from engine.training.models.around import Around, own_class, put_around

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class _Recomputed(Around):
    """Keeps the module's inputs alone, and runs it a second time when its gradients are wanted."""

    draws_at_random: bool | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = super().forward
        if not (self.training and torch.is_grad_enabled()):
            return own(*args, **kwargs)
        if torch.compiler.is_compiling():
            # The compiler makes every change of a buffer once, whatever it computes twice.
            return checkpoint(own, *args, use_reentrant=False, **kwargs)
        before = _random_states(self) if self.draws_at_random is None else ()
        result = checkpoint(
            own,
            *map(_copied, args),
            use_reentrant=False,
            context_fn=self._contexts,
            # Reading the generator's state costs time, and is not allowed while a graph is captured.
            preserve_rng_state=self.draws_at_random is not False,
            **{name: _copied(value) for name, value in kwargs.items()},
        )
        if self.draws_at_random is None:
            self.draws_at_random = before != _random_states(self)
        return result

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _statistics_kept(self)


def checkpoint_activations(model: nn.Module) -> int:
    """Recomputes the activations of the model's blocks; returns of how many, 0 where there are none.

    Blocks are what the model repeats: residual blocks, encoder and decoder layers, dense layers. Of a model
    that repeats nothing they are its direct parts that consist of several modules. The losses stay the same
    to the last bit, and BatchNorm's running statistics are updated once a step.
    """
    blocks = _repeated(model) or [child for child in model.children() if any(child.children())]
    for block in blocks:
        put_around(block, _Recomputed)
    return len(blocks)


def _repeated(model: nn.Module) -> list[nn.Module]:
    """The outermost modules of which there are several of their kind, each of several modules itself."""
    kinds = Counter(own_class(module) for module in model.modules() if _may_be_block(module))

    def below(parent: nn.Module) -> Iterator[nn.Module]:
        for child in parent.children():
            if kinds[own_class(child)] > 1:
                yield child
            else:
                yield from below(child)

    return list(dict.fromkeys(below(model)))


def _may_be_block(module: nn.Module) -> bool:
    has_weights = any(True for _ in module.parameters())
    return has_weights and any(True for _ in module.children()) and not isinstance(module, _CONTAINERS)


def _copied(value: Any) -> Any:
    """Lists and dicts anew, with the same tensors: a DenseNet appends to the list that it has passed on."""
    if isinstance(value, list):
        return [_copied(part) for part in value]
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return value


@contextmanager
def _statistics_kept(block: nn.Module) -> Iterator[None]:
    """Lets normalisations write to copies: the first forward pass has updated their statistics already."""
    own: list[tuple[nn.Module, str, torch.Tensor]] = []
    for module in block.modules():
        if isinstance(module, _NormBase):
            found = ((module, name, getattr(module, name)) for name in _STATISTICS)
            own += [entry for entry in found if entry[2] is not None]
    for module, name, statistic in own:
        setattr(module, name, statistic.clone())
    try:
        yield
    finally:
        for module, name, statistic in own:
            setattr(module, name, statistic)


def _random_states(block: nn.Module) -> tuple[bytes, ...]:
    weight = next(block.parameters())
    if isinstance(weight, FakeTensor):
        return ()  # a forecast computes nothing, so it draws nothing
    states = [torch.get_rng_state()]
    if weight.device.type != "cpu":
        states.append(torch.get_device_module(weight.device.type).get_rng_state())
    return tuple(state.numpy().tobytes() for state in states)
