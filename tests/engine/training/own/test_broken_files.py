"""Broken workload files: what is said of each names the file and line; and odd files that are sound."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from contextlib import closing

import pytest
import torch
from torch.utils._pytree import tree_leaves

from engine.experiment.problem import Kind
from engine.training.data.own import load_own_data, seeded, synthetic_batch
from engine.training.failures import error_details, problem_of
from engine.training.forecast import forecast
from engine.training.models.own import OwnFile
from tests.engine.training.conftest import line_of, trained

SOUND = """
import os, sys
from pathlib import Path
import torch
from torch import nn

def model():
    return nn.Linear(4, 3)

def batch(size):
    return torch.randn(size, 4), torch.randint(3, (size,))

def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)
"""
DATA = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.randn(4), index % 3

def dataset():
    return Data()
"""
MODEL, ITEM = "return nn.Linear(4, 3)", "return torch.randn(4), index % 3"
LOSS = "return nn.functional.cross_entropy(outputs, targets)"


def failure_of(own, text: str, **settings: object) -> BaseException:
    """The error that training the file raises, SystemExit too, as the worker catches it."""
    with pytest.raises((Exception, SystemExit)) as raised:
        own.run(text, **settings)
    return raised.value


@pytest.mark.parametrize(
    ("before", "after", "part", "said"),
    [
        ("import torch\n", "import torch\nraise ValueError('mine')\n", "raise", "ValueError: mine"),
        ("import torch\n", "import torch\nsys.exit(3)\n", "sys.exit", "ends the process"),
        (MODEL, f"os._exit(0); {MODEL}", "os._exit", "ends the process"),
        (MODEL, f"os.fork(); {MODEL}", "os.fork", "would train twice"),
        (MODEL, "return undefined", "undefined", "NameError"),
        ("torch.randn(size, 4)", "torch.randn(size, 9)", None, "shapes cannot be multiplied"),
        ("return nn.functional", "return undefined.functional", "undefined", "NameError"),
        (ITEM, "return undefined", "undefined", "NameError"),
        (ITEM, "sys.exit()", "sys.exit", "ends the process"),
        ("return 8", "return 0", None, "a dataset of length 0 from dataset()"),
        (MODEL, "return 3", None, "an int from model(), but it must be an nn.Module"),
        ("def model():", "def network():", None, "has no function model()"),
        (LOSS, "return outputs", None, "must be a floating-point scalar"),
        (LOSS, "return 0", None, "is an int, but it must"),
        (LOSS, "return torch.zeros(())", None, "loss(outputs, targets) has no gradient: it does not"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_line(own, before, after, part, said):
    if part == "os.fork" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    text = SOUND + (DATA if before in DATA else "")
    assert before in text
    text = text.replace(before, after, 1)
    error = failure_of(own, text)
    problem = problem_of(error)
    assert said in problem.message and problem.remedy
    if part is not None:
        assert (
            problem.message.startswith(f"net.py, line {line_of(text, part)}") and problem.kind is Kind.REQUEST
        )
        assert "site-packages" not in error_details(error) and "engine" not in error_details(error)


@pytest.mark.usefixtures("forked_loaders")
def test_a_loader_process_that_is_told_to_exit_says_where(own):
    text = (SOUND + DATA).replace(ITEM, f"if index == 7: sys.exit()\n        {ITEM}")
    problem = problem_of(failure_of(own, text, data={"workers": 1}))
    assert problem.message.startswith(f"net.py, line {line_of(text, 'sys.exit()')}, in __getitem__")


@pytest.mark.parametrize(
    "name", ["torch.py", "random.py", "statistics.py", "__main__.py", "my net, größer.py"]
)
@pytest.mark.parametrize("head", ["", "\N{BYTE ORDER MARK}"], ids=["", "BOM"])
def test_a_file_may_have_any_name_and_line_ends(own, name, head):
    path = own.write(SOUND, f"a folder/größer/{name}")
    text = (
        head
        + path.read_text("utf-8").replace("\n", "\r\n")
        + "if __name__ == '__main__':\r\n    sys.exit()\r\n"
    )
    path.write_bytes(text.encode())
    random = sys.modules["random"]
    assert len(trained(own.experiment(path)).losses) == 6
    assert sys.modules["random"] is random and sys.modules["torch"].__version__


def test_files_beside_it_are_read_by_relative_paths(own):
    own.write("8", "size.txt")
    text = SOUND.replace("nn.Linear(4, 3)", "nn.Linear(4, int(Path('size.txt').read_text()))")
    assert len(own.run(text).losses) == 6


def test_what_a_file_changes_in_the_process_spoils_no_run(own):
    text = """
import logging, random, signal, warnings
import torch
warnings.simplefilter("error")
logging.basicConfig(level=logging.DEBUG)
random.seed(1)
torch.manual_seed(1)
""" + SOUND.replace(MODEL, f"warnings.warn('a remark'); {MODEL}")
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        assert len(own.run(text).losses) == 6


def test_signal_handlers_are_left_alone_outside_the_main_thread(own):
    text = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SOUND
    before = signal.getsignal(signal.SIGINT)
    lengths: list[int] = []
    thread = threading.Thread(target=lambda: lengths.append(len(own.run(text).losses)))
    thread.start()
    thread.join()
    assert lengths == [6] and signal.getsignal(signal.SIGINT) is before


HEAD = """
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

x = torch.ones(4, 3)
labels = torch.zeros(4, dtype=torch.long)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, mask=None, labels=None):
        return self.layer(x)


def model():
    return Net()


@dataclass
class Parts:
    x: torch.Tensor
    mask: object = None


@dataclass
class Whole(Parts):
    labels: torch.Tensor = None


class Pair(NamedTuple):
    inputs: object
    targets: object


class Triple(NamedTuple):
    x: torch.Tensor
    mask: object
    labels: torch.Tensor


class ReadOnly(Mapping):
    def __init__(self, **parts):
        self._parts = parts

    def __getitem__(self, key):
        return self._parts[key]

    def __iter__(self):
        return iter(self._parts)

    def __len__(self):
        return len(self._parts)

"""
CONTAINERS = {
    "BatchEncoding": "BatchEncoding({'x': x, 'labels': labels})",
    "BatchFeature": "BatchFeature({'x': x}), labels",
    "a mapping of a class of its own": "ReadOnly(x=x, labels=labels)",
    "mappings in one another": "UserDict(x=x, mask=UserDict(a=[x, ReadOnly(b=x)])), labels",
    "a dataclass": "Parts(x), labels",
    "a dataclass as the whole batch": "Whole(x, labels=labels)",
    "a dataclass of mappings": "Parts(x, ReadOnly(a=x)), {'of': labels}",
    "a named tuple of inputs and targets": "Pair(Parts(x), labels)",
    "a named tuple of other parts": "Triple(x, None, labels)",
    "a named tuple as inputs": "Pair(x, x), labels",
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("is_dataset", [False, True])
def test_every_tensor_reaches_the_device_whatever_it_is_in(own, name, is_dataset):
    made = CONTAINERS[name]
    library = name if name.startswith("Batch") else None
    if library is not None:
        pytest.importorskip("transformers")
    body = f"    return {made}\n"
    body = f"    from transformers import {library}\n{body}" if library else body
    if is_dataset:
        text = f"{HEAD}def dataset():\n    return list(range(4))\n\ndef collate(samples):\n{body}"
    else:
        text = f"{HEAD}def batch(size):\n{body}"
    experiment = own.asked(text)
    file = OwnFile(experiment.own_code, None, 0)
    # of a device other than the host, for there may be no other
    with closing(load_own_data(file, experiment, torch.device("meta"), torch.contiguous_format)) as source:
        inputs, targets = next(iter(source.epoch(1)))
    leaves = tree_leaves((inputs, targets))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    assert len(tensors) >= 2 and {tensor.device.type for tensor in tensors} == {"meta"}
    assert all(isinstance(leaf, torch.Tensor | None) for leaf in leaves)
    assert isinstance(inputs, tuple) or inputs.x is inputs["x"]


def test_memory_is_forecast_for_batches_of_a_dataclass(own):
    text = f"{HEAD}def batch(size):\n    return Parts(torch.randn(size, 3)), labels[:1].expand(size)\n"
    assert forecast(own.asked(text)).per_sample_mib > 0


@pytest.mark.usefixtures("forked_loaders")
def test_batches_of_a_dataclass_train(own):
    text = f"{HEAD}def dataset():\n    return list(range(16))\n"
    text += "def collate(samples):\n    return Parts(torch.randn(len(samples), 3)), labels[: len(samples)]\n"
    for settings in ({}, {"data": {"workers": 1}}):
        assert len(own.run(text, **settings).losses) == 6


def test_a_random_number_of_the_data_does_not_change_the_models_draws(own):
    torch.manual_seed(7)
    before = torch.rand(1)
    torch.manual_seed(7)
    with seeded(3):
        torch.rand(5)
    assert torch.equal(torch.rand(1), before)


def test_drawing_a_batch_leaves_the_generators_of_other_devices_alone(own, monkeypatch):
    text = f"{HEAD}def batch(size):\n    return torch.randn(size, 3), labels\n"
    experiment = own.asked(text)
    file = OwnFile(experiment.own_code, None, 0)
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    batches = [synthetic_batch(file, experiment, turn)[0] for turn in (0, 1, 0)]
    assert not seeds
    assert torch.equal(batches[0], batches[2]) and not torch.equal(batches[0], batches[1])
