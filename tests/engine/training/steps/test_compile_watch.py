"""Recompilations and graph breaks are counted, with PyTorch's reason and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from engine.training.steps.compile_watch import CompileWatch
from tests.engine.training.conftest import line_of

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
SOURCE = Path(__file__).read_text(encoding="utf-8")
FACTOR = 2
Calls = tuple[Callable[[], object], Callable[[], object]]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Scaled(nn.Module):
    """Multiplies by an attribute, in a module of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 2

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.factor  # the attribute


def double(inputs: Tensor) -> Tensor:  # the function
    return inputs * 2  # the input


def scale(inputs: Tensor) -> Tensor:
    return inputs * FACTOR  # the global


def add(several: list[Tensor]) -> Tensor:
    return several[0] + len(several)  # the list


def broken(inputs: Tensor) -> Tensor:
    torch._dynamo.graph_break()  # the break
    return inputs * 2


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(function, backend="eager", dynamic=False)


def another_shape() -> Calls:
    call = compiled(double)
    return partial(call, torch.ones(2)), partial(call, torch.ones(3))


def another_dtype() -> Calls:
    call = compiled(double)
    return partial(call, torch.ones(2)), partial(call, torch.ones(2, dtype=torch.float64))


def another_grad_mode() -> Calls:
    call = compiled(double)
    return partial(call, torch.ones(2)), torch.no_grad()(partial(call, torch.ones(2)))


def another_global() -> Calls:
    call = compiled(scale)

    def second() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "FACTOR", 3)
            call(torch.ones(2))

    return partial(call, torch.ones(2)), second


def a_longer_list() -> Calls:
    call = compiled(add)
    return partial(call, [torch.ones(2)] * 2), partial(call, [torch.ones(2)] * 3)


def another_attribute() -> Calls:
    model = nn.Sequential(Scaled())
    call = compiled(model)

    def second() -> None:
        model[0].factor = 3
        call(torch.ones(2))

    return partial(call, torch.ones(2)), second


@pytest.mark.parametrize(
    ("cause", "reason", "lines", "name"),
    [
        (another_shape, "size mismatch at index 0", ("the function", "the input"), "double"),
        (another_dtype, "dtype mismatch", ("the function", "the input"), "double"),
        (another_grad_mode, "grad_mode", ("the function", "the input"), "double"),
        (another_global, "FACTOR", ("the global",), "scale"),
        (a_longer_list, "several", ("the list",), "add"),
        (another_attribute, "factor", ("the attribute",), "forward"),
    ],
)
def test_each_cause_of_a_recompilation_is_named_by_its_line(
    cause: Callable[[], Calls], reason: str, lines: tuple[str, ...], name: str
) -> None:
    watch, (first, second) = CompileWatch(), cause()
    with watch.watching() as new:
        first()
    assert new == [] and watch.has_compiled
    with watch.watching() as new:
        second()
    (event,) = new
    assert event.kind == "recompilation" and reason in event.reason
    places = [f"{Path(__file__).name}:{line_of(SOURCE, f'# {line}')}, {name}" for line in lines]
    assert event.place in places
    found = watch.compilation(1, 0.5)
    assert (found.recompilations, found.graph_breaks, found.events) == (1, 0, (event,))
    with watch.watching() as new:
        second()
    assert new == [] and not watch.has_compiled and watch.compilation(0, 0.0).recompilations == 1


def test_a_graph_break_is_named_by_its_line_and_counted_by_place() -> None:
    watch, call = CompileWatch(), compiled(broken)
    with watch.watching() as new:
        call(torch.ones(2))
    (event,) = new
    assert event.kind == "graph break" and "graph_break" in event.reason
    assert event.place == f"{Path(__file__).name}:{line_of(SOURCE, '# the break')}, broken"
    with watch.watching() as new:
        call(torch.ones(3))
    found = watch.compilation(0, 0.0)
    assert found.graph_breaks == 1 and found.recompilations == len(new) and found.is_cached is None


def test_what_else_is_compiled_is_not_counted() -> None:
    watch, (first, second) = CompileWatch(), another_shape()
    first()
    with watch.watching() as new:
        pass
    second()
    assert new == [] and watch.compilation(0, 0.0).recompilations == 0
