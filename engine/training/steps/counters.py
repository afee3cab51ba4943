"""BatchNorm's counters of batches, which count on the host while a model trains and launch no kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._python_dispatch import _disable_current_modes

from engine.training.models.forward import original_class, removed_at_end

_NAME = "num_batches_tracked"


def counting_norms(model: nn.Module) -> dict[nn.Module, torch.Tensor]:
    """Return the BatchNorm layers with a counter that PyTorch only counts up, each with its counter.

    PyTorch reads a counter where momentum is None.
    """
    return {
        module: module.num_batches_tracked
        for module in model.modules()
        if isinstance(module, _BatchNorm) and original_class(module).forward is _BatchNorm.forward
        if module.num_batches_tracked is not None and module.momentum is not None
    }


class HostCounters:
    """Counts the batches of BatchNorm layers on the host, and adds them to the model's state when it is read.

    How often a pass calls each layer is found in a first pass with fake tensors, which computes and draws
    nothing. Only for models whose passes are alike.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._kept: Mapping[nn.Module, tuple[torch.Tensor, int]] | None = None
        self._passes = 0

    def count(self, passes: int, forward: Callable[[], object]) -> None:
        """Count training passes before they are made. The first call makes `forward` with fake tensors.

        Raises the error of a `forward` that fails, and leaves all counters as they were.
        """
        if self._kept is None:
            self._kept = self._hidden(forward)
        self._passes += passes

    def _hidden(self, forward: Callable[[], object]) -> Mapping[nn.Module, tuple[torch.Tensor, int]]:
        norms = counting_norms(self._model)
        calls: Counter[nn.Module] = Counter()
        for norm in norms:
            setattr(norm, _NAME, None)
        hooks = [norm.register_forward_pre_hook(lambda module, _: calls.update([module])) for norm in norms]
        fakes = FakeTensorMode(allow_non_fake_inputs=True)
        try:
            with removed_at_end(hooks), torch.no_grad(), _disable_current_modes():
                state = chain(self._model.named_parameters(), self._model.named_buffers())
                # else numbers on the host would change
                imagined: dict[str, torch.Tensor] = {name: fakes.from_tensor(each) for name, each in state}
                with _reparametrize_module(self._model, imagined), fakes:
                    forward()
        except BaseException:
            for norm, counter in norms.items():
                setattr(norm, _NAME, counter)
            raise
        for norm in norms:
            # PyTorch marks what it gets
            norm.register_state_dict_post_hook(lambda *given: self._add(*given))  # type: ignore[no-untyped-call]
        return {norm: (counter, calls[norm] * norm.training) for norm, counter in norms.items()}

    def _add(self, norm: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
        assert self._kept is not None  # what is hooked is kept
        counter, calls = self._kept[norm]
        state[prefix + _NAME] = counter + calls * self._passes
