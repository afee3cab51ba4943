"""The samples of a batch are counted whatever dimension, list or object they are in."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing

import pytest
import torch

from engine.protocol.jobs import Control
from engine.training.checks.check import check
from engine.training.data.batches import SizedBatch, batch_samples, epoch_order, move_batch, replace_inputs
from engine.training.data.own import FEW, MORE, load_own_data, resize_batch
from engine.training.forecast import forecast
from engine.training.models.own import OwnFile
from engine.training.runs.trial import try_batch
from tests.engine.training.conftest import refusal, trained

HEAD = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy

def model():
    return nn.Linear(4, 3)

def forward(model, inputs):
    return model(inputs)

def loss(outputs, targets):
    return outputs.square().mean()
"""
DATA = """
def dataset():
    return list(range(10))

validation_dataset = dataset
"""
DETECTION = """
def collate(samples):
    pictures = [torch.randn(3, 5 + n, 4) for n in samples]
    return pictures, [{"boxes": torch.rand(n % 3, 4)} for n in samples]

def forward(model, inputs):
    return torch.stack([model(picture).mean() for picture in inputs])
"""
GRAPHS = """
def collate(samples):
    nodes = torch.tensor([5 + n for n in samples])
    x, of = torch.randn(int(nodes.sum()), 4), torch.arange(len(samples)).repeat_interleave(nodes)
    inputs = {"x": x, "edges": torch.randint(len(x), (2, 3 * len(x))), "of": of}
    return inputs, torch.zeros(len(samples), dtype=torch.long)

def forward(model, inputs):
    return model(inputs["x"])
"""
OBJECT = """
class Graphs:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def to(self, device):
        return Graphs(self.x.to(device), self.y.to(device))

def collate(samples):
    return Graphs(torch.randn(7 * len(samples), 4), torch.zeros(len(samples), dtype=torch.long))

def forward(model, inputs):
    return model(inputs.x)

def loss(outputs, targets):
    return outputs[: len(targets)].square().mean()
"""
PACKED = """
def batch(size):
    ends = 32 * torch.arange(size + 1)
    return {"x": torch.randn(1, 32 * size, 4), "ends": ends}, torch.randint(3, (1, 32 * size))

def forward(model, inputs):
    return model(inputs["x"])
"""


LONG = """
def dataset():
    return [torch.randn(50 if n == RARE else 4, 4) for n in range(64)]

def collate(samples):
    return nn.utils.rnn.pad_sequence(samples, batch_first=True), torch.zeros(len(samples))

def forward(model, inputs):
    if inputs.shape[1] == 50:
        raise MemoryError
    return model(inputs)
"""


def batch_of(inputs: str, targets: str) -> str:
    return f"def batch(size):\n    return torch.randn({inputs}), torch.randn({targets})\n"


FILES = {
    "pictures and boxes in lists": DATA + DETECTION,
    "graphs in a dict": DATA + GRAPHS,
    "graphs in an object": DATA + OBJECT,
    "texts in a row": PACKED,
    "texts without an end": batch_of("32 * size, 4", "32 * size"),
    "time first": batch_of("7, size, 4", "size"),
    "time first twice": batch_of("7, size, 4", "7, size"),
    "frames of films": batch_of("5 * size, 4", "size"),
    "collated with time first": DATA
    + "def collate(samples):\n    return torch.randn(7, len(samples), 4), torch.randn(len(samples))\n",
}


def sizes(own, text: str, size: int = 4) -> list[int]:
    """The samples of the batches of an epoch."""
    experiment = own.asked(HEAD + text, batch_size=size, samples=10)
    file = OwnFile(experiment.own_code, None, 0)
    with closing(load_own_data(file, experiment, torch.device("cpu"), torch.contiguous_format)) as source:
        return [batch_samples(batch) for batch in source.epoch(1)]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [3, 4])
def test_a_batch_has_as_many_samples_as_it_was_asked_for(own, name, size):
    text = FILES[name]
    last = [10 % size] if DATA in text else [size] * (10 % size > 0)
    assert sizes(own, text, size) == [size] * (10 // size) + last


@pytest.mark.parametrize("name", FILES)
def test_such_batches_are_checked_trained_accumulated_and_validated(own, name):
    settings = {"steps": None, "epochs": 1, "samples": 16, "step": {"gradient_accumulation": 2}}
    experiment = own.asked(HEAD + FILES[name], **settings, precision="bf16")
    assert not check(experiment).errors
    (epoch,) = trained(experiment).epochs
    assert epoch.step == 2 and (epoch.validation_loss is not None) is (DATA in FILES[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["graphs in a dict", "texts in a row", "time first", "pictures and boxes in lists"]
)
def test_their_memory_grows_with_the_batch(own, name):
    text = FILES[name].replace("randn(3, ", "randn(300, ").replace("32 *", "3200 *")
    assert forecast(own.asked(HEAD + text)).per_sample_mib > 0.0005


def test_the_dicts_of_a_grown_batch_are_of_their_own_kind():
    few, more = (defaultdict(list, x=torch.zeros(size, 4)) for size in (FEW, MORE))
    made = resize_batch(few, more, 10)
    assert isinstance(made, defaultdict) and made["x"].shape == (10, 4) and len(more["x"]) == MORE


def test_a_trial_counts_whole_steps_by_what_a_batch_was_asked_for(own):
    text = HEAD + FILES["graphs in a dict"] + "def batch_size(inputs, targets):\n    return 1\n"
    tried = list(try_batch(own.asked(text, memory_cap_gib=None), Control()))[-1]
    assert tried.trial.fits and tried.trial.steps == 4


def test_a_trial_trains_on_the_largest_batch_where_samples_differ_in_size(own):
    # the epoch's thirtieth sample is long, in a batch that no step of the trial would have come to
    text = HEAD + LONG.replace("RARE", str(int(epoch_order(64, 0, 1)[30])))
    tried = list(try_batch(own.asked(text, steps=5), Control()))[-1]
    assert not tried.trial.fits and tried.trial.cause == "memory" and tried.looked_through == 16
    alike = text.replace("50 if", "4 if")
    tried = list(try_batch(own.asked(alike, steps=5), Control()))[-1]
    assert tried.trial.fits and tried.looked_through is None


ZERO, INPUTS = (f"\ndef batch_size(inputs, targets):\n    return {it}\n" for it in ("0", "inputs"))
DROPS = (
    "def collate(samples):\n    kept = len(samples) - 1\n    return torch.randn(kept, 4), torch.randn(kept)\n"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (GRAPHS + ZERO.replace("0", "2 * len(targets)"), [8, 8, 4]),
        (PACKED.replace("batch(size)", "collate(samples)").replace("size", "len(samples)"), [4, 4, 2]),
        # what is dropped is not counted, though one sample cannot be told from one row of all
        (DROPS, [3, 3, 2]),
        (DETECTION.replace("samples):", "samples):\n    samples = samples[1:]", 1), [3, 3, 2]),
    ],
)
def test_the_file_may_say_the_size_and_may_drop_samples(own, text, found):
    assert sizes(own, DATA + text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (batch_of("9, 4", "9"), "the same 9 samples from batch(4) and batch(2)"),
        (batch_of("size + 1, 4", "size"), "inputs of 5 samples and targets of 4"),
        (FILES["time first"] + ZERO, "returned 0 from batch_size"),
        (FILES["time first"] + INPUTS, "returned a tensor of shape (7, 4, 4)"),
        ("def batch(size):\n    return size, None\n", "no tensor from batch(4)"),
        (DATA + OBJECT.replace("def to", "def there"), "a Graphs from collate(samples)"),
    ],
)
def test_a_batch_that_cannot_be_right_is_refused(own, text, said):
    problem = refusal(sizes, own, text)
    assert said in problem.message and problem.remedy


def test_a_batch_keeps_its_size_wherever_it_goes():
    batch = SizedBatch((torch.ones(2, 3), None), 5, 6)
    on_host = move_batch(batch, torch.device("cpu"))
    for same in (on_host, replace_inputs(batch, 1), torch.utils._pytree.tree_map(lambda part: part, batch)):
        assert isinstance(same, SizedBatch) and (same.samples, same.asked) == (5, 6)


def test_a_packed_sequence_keeps_its_lengths_on_the_host():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)])
    (moved, _) = move_batch((packed, torch.ones(2)), torch.device("meta"))
    assert moved.data.device.type == "meta" and moved.batch_sizes.device.type == "cpu"
