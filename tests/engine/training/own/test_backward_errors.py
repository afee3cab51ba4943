"""An error of a backward pass names the line of the forward pass that made the failing operation."""

from __future__ import annotations

import pytest
import torch

from engine.protocol.advice import FindingKind
from engine.protocol.jobs import Control
from engine.training.checks.check import check
from engine.training.doctor import read_catalog
from engine.training.failures import error_details, problem_of
from engine.training.models.own import run_backward, with_forward_line
from engine.training.numerics.bench import Bench
from engine.training.runs.plan import RunPlan
from engine.training.runs.trial import try_batch
from tests.engine.training.conftest import line_of, trained

FILE = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from beside import broken

class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2
    @staticmethod
    def backward(context, gradient):
        raise ValueError("mine")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("a", torch.eye(4).to_sparse())
    def forward(self, x):
        y = self.one(x)
        OPERATION
        return self.two(y)

def model():
    return Net()

def batch(size):
    return torch.randn(size, 4), torch.randint(3, (size,))

def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs.float(), targets)
"""
STEP = """
def step(train, batch):
    with train.autocast():
        found = loss(train.model(batch[0]), batch[1])
    train.backward(found)
    train.step(train.optimizer)
"""
SPARSE = "y = torch.sparse.mm(self.a, y.T).T  # here"
CASES = {
    "a type": (SPARSE, "expected scalar type"),
    "a change in place": ("z = y.sigmoid(); y = z * 2; z.add_(1)  # here", "an inplace operation"),
    "in a module beside the file": ("y = broken(y)", "an inplace operation"),
    "recomputed": (f"y = checkpoint(lambda y: {SPARSE[4:-8]}, y, use_reentrant=False)  # here", "scalar"),
}  # fmt: skip


def limit(experiment):
    list(try_batch(experiment, Control()))


def numerics(experiment):
    bench = Bench(RunPlan(experiment, read_catalog()), Control())
    with bench.trainee() as trainee:
        trainee.forward_backward(next(bench.groups(1)))


@pytest.fixture(autouse=True)
def _beside(own) -> None:
    own.write("def broken(x):\n    y = x.exp()\n    y.add_(1)\n    return y\n", "beside.py")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", ["", STEP], ids=["loss", "step"])
def test_check_names_the_forward_line(own, name, step):
    operation, said = CASES[name]
    text = FILE.replace("OPERATION", operation) + step
    (error,) = check(own.asked(text, precision="bf16")).errors
    expected = "beside.py:2" if "broken" in operation else f"net.py:{line_of(text, '# here')}"
    assert error.place == expected
    assert said in error.message and "backward pass" in error.message and "Hint" not in error.message


@pytest.mark.parametrize("job", [trained, limit, numerics])
@pytest.mark.parametrize("step", ["", STEP], ids=["loss", "step"])
def test_jobs_that_train_name_it_too(own, job, step):
    text = FILE.replace("OPERATION", SPARSE) + step
    with pytest.raises(RuntimeError) as raised:
        job(own.asked(text, precision="bf16"))
    line = line_of(text, "# here")
    problem = problem_of(raised.value)
    assert problem.message.startswith(f"net.py, line {line}, in forward: RuntimeError: expected scalar type")
    assert f"line {line}, in forward" in error_details(raised.value)


@pytest.mark.parametrize("step", ["", STEP], ids=["loss", "step"])
def test_the_repeated_pass_counts_nothing_twice(own, step):
    text = FILE.replace("OPERATION", f"y.sum().item(); {SPARSE}") + step
    found = check(own.asked(text, precision="bf16")).findings
    (wait,) = (finding for finding in found if finding.kind is FindingKind.WAITS)
    assert wait.count == 1


def test_an_error_of_the_users_own_backward_names_its_own_line(own):
    text = FILE.replace("OPERATION", "y = Refuses.apply(y)")
    (error,) = check(own.asked(text)).errors
    assert error.place == f"net.py:{line_of(text, 'raise ValueError')}"
    assert "backward pass" not in error.message


def test_without_a_line_the_backward_pass_is_named_and_a_lack_of_memory_is_not_repeated():
    calls = []

    def work(error: Exception) -> None:
        calls.append(error)
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda gradient: (_ for _ in ()).throw(error))
        run_backward(y.sum(), y.sum().backward)

    with pytest.raises(RuntimeError) as raised:
        with_forward_line(lambda: work(RuntimeError("of a library")))
    assert problem_of(raised.value).message == "The model failed in the backward pass: of a library."
    assert len(calls) == 2
    with pytest.raises(torch.OutOfMemoryError):
        with_forward_line(lambda: work(torch.OutOfMemoryError("CUDA out of memory")))
    assert len(calls) == 3
