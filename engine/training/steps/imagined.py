"""The step of a memory forecast, whose model is compiled for fake tensors without generating code."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch._functorch.config as functorch_config
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from engine.training.precision import autocast
from engine.training.steps.plain import PlainStep


class ImaginedStep(PlainStep):
    """A plain step with fake tensors, to forecast its memory. `compile_for` compiles its model."""

    _compiled: nn.Module | None = None

    @property
    def watched(self) -> nn.Module:
        return self._compiled or self._called

    def compile_for(self, inputs: Any, fakes: FakeTensorMode, budget: float) -> None:
        """Compile the model for inputs of these sizes and an activation budget, unobserved.

        Raises any error of PyTorch's tracing.
        """
        self._compiled = _PartitionedModel(self._called, budget)
        with _disable_current_modes(), fakes, autocast(self.autocast_precision, self.device):
            self._forward(inputs)

    def _forward(self, inputs: Any) -> Any:
        return self._call(self.watched, inputs)


class _PartitionedModel(nn.Module):
    """Calls a model as a forward and a backward graph that `torch.compile` would make of it.

    The forward graph stores what a compiled model stores within an activation budget. The first call traces
    the model, and later ones need inputs of the same sizes. Operations are not fused.
    """

    def __init__(self, model: nn.Module, budget: float) -> None:
        # these take over a second to import, and few forecasts need them
        from torch._functorch.aot_autograd import aot_function
        from torch._functorch.partitioners import min_cut_rematerialization_partition
        from torch._inductor.decomposition import select_decomp_table

        super().__init__()
        # as that of `torch.compile`, which is no submodule either: its forward has the signature
        object.__setattr__(self, "_orig_mod", model)
        self._budget = budget
        # in a list, because it is no state of this module
        self._state = [{**dict(model.named_parameters()), **dict(model.named_buffers())}]

        def call(state: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            return torch.func.functional_call(model, state, args, kwargs)

        self._graphs = aot_function(
            call,
            fw_compiler=lambda graph, _: _BoxedGraph(graph),
            bw_compiler=lambda graph, _: _BoxedGraph(graph),
            partition_fn=partial(min_cut_rematerialization_partition, compiler="inductor"),
            decompositions=select_decomp_table(),
            num_params_buffers=len(self._state[0]),
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with functorch_config.patch(activation_memory_budget=self._budget):
            return self._graphs(*self._state, *args, **kwargs)


class _BoxedGraph(fx.Interpreter):
    """Runs a graph with a list of inputs, and frees each after its last use, as compiled code does."""

    _boxed_call = True

    def __call__(self, inputs: list[Any]) -> Any:
        try:
            return self.boxed_run(inputs)
        finally:
            self.env = {}  # which would keep the results
