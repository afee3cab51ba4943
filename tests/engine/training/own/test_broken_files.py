"""Broken workload files: what is said of each names the file and line; and odd files that are sound."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings

import pytest

from engine.experiment.problem import Kind
from engine.training.failures import details_of, problem_of

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


def failure_of(own, text: str, **settings: object) -> BaseException:
    """What training the file raises; as the worker does, SystemExit is caught too."""
    with pytest.raises((Exception, SystemExit)) as raised:
        own.events(own.experiment(own.write(text), **settings))
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
        (
            "torch.randn(size, 4)",
            "torch.randn(size + 1, 4)",
            None,
            "inputs of 5 samples and targets of 4 from batch(4)",
        ),
        (
            "return nn.functional.cross_entropy(outputs, targets)",
            "return outputs",
            None,
            "must be a scalar tensor of floats",
        ),
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
        line = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
        assert problem.message.startswith(f"net.py, line {line}") and problem.kind is Kind.REQUEST
        assert "site-packages" not in details_of(error) and "engine" not in details_of(error)


@pytest.mark.slow
def test_a_loader_process_that_is_told_to_exit_says_where(own):
    text = (SOUND + DATA).replace(ITEM, f"if index == 7: sys.exit()\n        {ITEM}")
    problem = problem_of(failure_of(own, text, data={"workers": 1}))
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "sys.exit()" in line)
    assert problem.message.startswith(f"net.py, line {line}, in __getitem__")


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
    assert len(own.losses(own.experiment(path))) == 6
    assert sys.modules["random"] is random and sys.modules["torch"].__version__


def test_files_beside_it_are_read_by_relative_paths(own):
    own.write("8", "size.txt")
    path = own.write(
        SOUND.replace("nn.Linear(4, 3)", "nn.Sequential(nn.Linear(4, int(Path('size.txt').read_text())))")
    )
    assert len(own.losses(own.experiment(path))) == 6


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
        assert len(own.losses(own.experiment(own.write(text)))) == 6


def test_signal_handlers_are_left_alone_outside_the_main_thread(own):
    path = own.write("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SOUND)
    before = signal.getsignal(signal.SIGINT)
    lengths: list[int] = []
    thread = threading.Thread(target=lambda: lengths.append(len(own.losses(own.experiment(path)))))
    thread.start()
    thread.join()
    assert lengths == [6] and signal.getsignal(signal.SIGINT) is before
