"""Models of the user's own: what a workload file may define, and that it trains as the catalog's do."""

from __future__ import annotations

import math
import os
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code, read_code
from engine.experiment.problem import Kind, ProblemError
from engine.training.data.batches import BatchRequest
from engine.training.data.own import OwnDataset
from engine.training.doctor import read_catalog
from engine.training.failures import problem_of
from engine.training.forecast import forecast
from engine.training.models.own import OwnFile
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import refusal, trained

HEAD = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
"""
BATCH = """
def batch(size):
    return torch.randn(size, 4), torch.randint(3, (size,))
"""
LINES = HEAD + BATCH
"""A file with a model and made-up batches."""


def test_a_file_of_ten_lines_trains(own):
    run = own.run(LINES)
    started = run.started
    assert started.experiment.model == "net.py" and started.experiment.dataset == "own"
    assert started.parameters == 4 * 8 + 8 + 8 * 3 + 3 and started.steps_per_epoch == 4
    assert run.summary.steps == 6
    # it repeats, and another seed differs
    assert own.run(LINES).losses == run.losses != own.run(LINES, seed=1).losses


@pytest.mark.slow
def test_the_catalogs_model_written_by_hand_has_the_same_losses_to_the_last_bit(own):
    path = own.write(
        "import torchvision\ndef model():\n    return torchvision.models.resnet18(num_classes=10)\n"
    )
    settings = {"dataset": "synthetic", "image_size": 32, "num_classes": 10, "steps": 3}
    for precision in ("fp32", "bf16"):
        ours = experiment_from(
            {**own.experiment(path, **settings).model_dump(), "code": None, "model": "resnet18"}
        )
        ours = ours.model_copy(update={"precision": ours.precision.__class__(precision)})
        theirs = own.experiment(path, **settings, precision=precision)
        assert trained(theirs).losses == trained(ours).losses


def test_a_class_is_named_after_the_colon_and_modules_beside_the_file_are_imported(own):
    own.write("from torch import nn\nclass Block(nn.Linear):\n    pass\n", "parts/block.py")
    own.write("from .block import Block\n", "parts/__init__.py")
    path = own.write(
        """
        import torch
        from torch import nn
        from parts import Block
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = Block(4, 3)
            def forward(self, x):
                return self.block(x)
        """
        + BATCH.replace("\n", "\n        ")
    )
    experiment = own.experiment(f"{path}:Net")
    assert set(experiment.own_code.beside) == {"parts/__init__.py", "parts/block.py"}
    first = trained(experiment).losses
    # the kept text counts, whatever the files have become
    (path.parent / "parts" / "block.py").unlink()
    path.write_text("raise RuntimeError")
    assert trained(experiment).losses == first and len(first) == 6


TRAP = "raise AssertionError('it was not shown')\n"


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("import planted", "planted.py"),
        ("import importlib; importlib.import_module('plan' + 'ted')", "planted.py"),
        ("import parts.planted", "parts/planted.py"),
        ("import parts; importlib = __import__('importlib'); importlib.import_module('.planted', 'parts')",
         "parts/planted.py"),
        ("import spaces.planted", "spaces/planted.py"),
        ("import planted", "planted/__init__.py"),
        ("import pickle; pickle.loads(b'cplanted\\nNet\\n.')", "planted.py"),
    ],
)  # fmt: skip
def test_nothing_is_imported_from_the_folder_that_the_code_does_not_keep(own, statement, name):
    """Although it lies there by now, and code that was shown asks for it."""
    own.write(TRAP, name)
    path = own.write(LINES)
    kept = {"parts/__init__.py": "", "spaces/kept.py": "WIDTH = 8\n"}
    code = Code(file="net.py", folder=str(path.parent), text=f"{LINES}\n{statement}\n", beside=kept)
    with pytest.raises(ModuleNotFoundError) as caught:
        OwnFile(code, None, 0)
    problem = problem_of(caught.value)
    assert f"{name} is in the folder of net.py, but the run does not" in problem.message
    assert "install" not in problem.remedy
    assert str(path.parent) not in sys.path


def test_what_a_library_looks_for_is_not_found_in_the_folder(own):
    own.write(TRAP, "planted_optional.py")
    path = own.write(f"import json\nimport csv\n{LINES}")
    for name in ("csv.py", "redis.py", "ck4inductor/__init__.py", "sitecustomize.py"):
        own.write(TRAP, name)
    OwnFile(read_code(path), None, 0)
    for name in ("redis", "ck4inductor", "ck4inductor.util", "planted_optional", "sitecustomize"):
        with pytest.raises(ModuleNotFoundError):
            import_module(name)
    assert not read_code(path).beside


@pytest.mark.parametrize(
    "statement",
    [
        "import helper",
        "from spaces import helper",
        "from parts.inner import helper",
        "from parts import *",
        "import importlib; helper = importlib.import_module('helper')",
        "from importlib import import_module; [import_module(f'spaces.{name}') for name in ['helper']]",
        "import importlib; [importlib.import_module('spaces.' + name) for name in ['helper']]",
        "from zoo import *",
    ],
)
def test_modules_of_ones_own_are_kept_and_served_however_they_are_named(own, statement):
    for name in ("helper.py", "spaces/helper.py", "parts/inner/helper.py", "zoo/helper.py"):
        own.write("def width():\n    return 8\n", name)
    own.write("from .inner.helper import width\n", "parts/__init__.py")
    own.write(
        """
        from importlib import import_module
        from pathlib import Path
        __all__ = ["helper"]
        for path in Path(__file__).parent.glob("h*.py"):
            import_module(f".{path.stem}", __package__)
        """,
        "zoo/__init__.py",
    )
    assert len(own.run(f"{statement}\n{LINES}").losses) == 6


def test_a_module_beside_it_that_is_not_python_is_named_with_its_line(own):
    own.write("width = (\n", "helper.py")
    path = own.write(f"import helper\n{LINES}")
    with pytest.raises(SyntaxError) as caught:
        OwnFile(read_code(path), None, 0)
    assert problem_of(caught.value).message.startswith("helper.py, line 1")


@pytest.mark.parametrize("folder", [r"C:\models", r"\\host\share"])
def test_a_folder_of_another_system_is_not_looked_for_where_the_process_is(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "planted.py").touch()
    code = Code(file="net.py", folder=folder, text=f"{LINES}\nimport planted\n")
    with pytest.raises(ModuleNotFoundError):
        OwnFile(code, None, 0)
    assert Path.cwd() == tmp_path and folder not in sys.path


def test_inputs_may_be_nested_and_outputs_may_hold_their_own_loss(own):
    text = """
        import torch
        from torch import nn
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 2), nn.Linear(3, 2)
            def forward(self, left, right, labels):
                logits = self.a(left) + self.b(right["x"])
                return {"logits": logits, "loss": nn.functional.cross_entropy(logits, labels)}
        def model():
            return Pair()
        def batch(size):
            labels = torch.randint(2, (size,))
            return {"left": torch.randn(size, 4), "right": {"x": torch.randn(size, 3)}, "labels": labels}
        """
    for settings in ({}, {"precision": "bf16"}, {"step": {"gradient_accumulation": 2}}):
        assert all(map(math.isfinite, own.run(text, **settings).losses))


@pytest.mark.parametrize("name", ["labels", "label", "targets", "target", "y"])
def test_a_batch_that_is_one_dict_has_its_targets_by_their_usual_names(own, name):
    parts = f"{{'input': torch.randn(size, 4), '{name}': torch.randint(3, (size,))}}"
    assert len(own.run(f"{HEAD}def batch(size):\n    return {parts}\n").losses) == 6


@pytest.mark.slow
def test_datasets_are_collated_validated_and_read_by_loader_processes_alike(own):
    text = (
        HEAD
        + """
class Data(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return torch.full((4,), float(index)) + torch.rand(4), index % 3
def dataset():
    return Data(10)
def validation_dataset():
    return Data(5)
def collate(samples):
    return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])
"""
    )
    settings = {"steps": None, "epochs": 2}
    run = own.run(text, **settings)
    epochs = run.epochs
    assert [epoch.step for epoch in epochs] == [3, 6]
    assert all(epoch.validation_loss is not None for epoch in epochs)
    assert all(epoch.validation_accuracy in {0, 0.2, 0.4, 0.6, 0.8, 1} for epoch in epochs)
    # one of them takes seconds to import torch; that several keep the order is shown in data/test_loader.py
    assert own.run(text, **settings, data={"workers": 1}).losses == run.losses


def test_an_iterable_dataset_begins_anew_where_it_ends_and_has_one_iterator_in_an_epoch(own):
    stream = "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n"
    rows = "        return iter([(torch.full((4,), float(n)), n % 3) for n in range(9)])\n"
    experiment = own.asked(f"{HEAD}{stream}{rows}def dataset():\n    return Stream()\n")
    assert len(trained(experiment).losses) == 6
    samples = OwnDataset(OwnFile(experiment.own_code, None, 0), experiment)
    iterators, firsts = [], []
    # a resumed epoch skips; one iterator around that of each batch before would slow every further batch
    for epoch, number in ((1, 1), (1, 2), (1, 3), (2, 0)):
        firsts.append(int(samples.batch(BatchRequest(True, epoch, number, (0, 1)))[0][0, 0]))
        iterators.append(samples._iterators[True][2])
    assert firsts == [2, 4, 6, 0]
    assert iterators[0] is iterators[1] is iterators[2] is not iterators[3]


@pytest.mark.parametrize(
    ("model", "dataset"),
    [("net.py", "synthetic-tokens"), ("causal-lm-tiny", "synthetic-tokens"), ("causal-lm-tiny", "arrays")],
)
def test_where_there_are_as_many_classes_as_tokens_the_classes_are_last(own, model, dataset):
    own.write("import torch\ndef model():\n    return torch.nn.Embedding(8, 8)\n")
    name = own.folder / model if model == "net.py" else model
    settings = {"dataset": dataset, "num_classes": 8, "sequence_length": 8}
    if dataset == "arrays":
        np.save(own.folder / "x.npy", np.arange(16 * 9).reshape(16, 9) % 8)
        settings = {"dataset": dataset, "path": str(own.folder / "x.npy")}
    workload = RunPlan(own.experiment(name, **settings), read_catalog()).workload
    # each token's most likely class is the one before its place; each class's token is the one after
    logits = torch.eye(8).roll(1, 0).repeat(2, 1, 1)
    targets = logits[0].argmax(dim=-1).repeat(2, 1)
    assert not torch.equal(targets[0], logits[0].argmax(dim=0))
    hits = workload.hits(logits, targets, 2)
    assert hits is not None and (int(hits[0]), hits[1]) == (16, 16)


def test_loss_forward_optimizer_and_accuracy_of_the_files_own(own):
    text = (
        LINES
        + """
def dataset():
    return [(torch.randn(4), n % 3) for n in range(8)]
validation_dataset = dataset
def forward(model, inputs):
    return model(inputs) * 2
def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets) + 100
def accuracy(outputs, targets):
    return 0.25
def optimizer(model):
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}]
    return torch.optim.RMSprop(groups, lr=0.25)
"""
    )
    run = own.run(text, steps=None, epochs=2, schedule={"name": "step", "decay_epochs": 1})
    assert min(run.losses) > 100
    assert run.samples.learning_rate == pytest.approx([0.5, 0.5, 0.05, 0.05])
    assert [epoch.validation_accuracy for epoch in run.epochs] == [0.25, 0.25]


GAN = (
    HEAD.replace(
        "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))", "nn.ModuleDict(PARTS)"
    ).replace("def model", "PARTS = {'g': nn.Linear(2, 4), 'd': nn.Linear(4, 1)}\ndef model")
    + BATCH
    + """
def optimizer(model):
    return torch.optim.SGD(model["g"].parameters(), lr=0.1), torch.optim.Adam(model["d"].parameters())
def step(train, batch):
    real, _ = batch
    generator, critic = train.optimizers
    noise = torch.randn(len(real), 2, device=train.device)
    for _ in range(2):
        with train.autocast():
            fake = train.model["g"](noise).detach()
            loss = train.model["d"](fake).mean() - train.model["d"](real).mean()
        train.backward(loss)
        train.step(critic)
    with train.autocast():
        score = -train.model["d"](train.model["g"](noise)).mean()
    train.backward(score)
    train.step(generator)
    assert not train.was_skipped(generator)
    return score
"""
)


def test_an_own_step_like_the_plain_one_has_its_losses(own):
    body = """
def step(train, batch):
    inputs, targets = batch
    with train.autocast():
        loss = nn.functional.cross_entropy(train.model(inputs), targets)
    train.backward(loss)
    train.step(train.optimizer)
"""
    settings = {"precision": "fp16", "scaler": {"init_scale": 2.0**20}, "step": {"clip_norm": 0.5}}
    assert own.run(LINES + body, **settings).losses == own.run(LINES, **settings).losses


def test_an_own_step_resumes_where_it_stopped(own, tmp_path):
    whole = own.asked(GAN, checkpoint={"last": True})
    expected = trained(whole).losses
    trained(whole.model_copy(update={"steps": 4}), tmp_path / "kept")
    assert trained(whole, tmp_path / "kept", resume=True).losses == expected[4:]


def test_an_overflow_is_skipped_and_counted_in_an_own_step(own):
    overflowing = LINES + (
        "\ndef step(train, batch):\n    with train.autocast():\n"
        "        loss = train.model(batch[0]).sum() * 1e4\n"
        "    train.backward(loss)\n    train.step(train.optimizer)\n"
    )
    summary = own.run(overflowing, precision="fp16", scaler={"init_scale": 2.0**100}).summary
    assert summary.skipped_steps == 6 and summary.final_grad_scale < 2.0**100


def test_memory_is_forecast_for_a_file_and_one_without_its_text_is_refused(own):
    made = forecast(own.asked(LINES.replace("8", "512")))
    assert made.per_sample_mib > 0 and made.parameters_mib == pytest.approx(4 * 4_099 / 2**20, rel=0.01)
    problem = refusal(trained, Experiment(model="net.py", device="cpu"))
    assert problem.kind is Kind.REQUEST and "missing" in problem.message


def test_a_budget_is_forecast_for_a_model_that_takes_its_inputs_as_one_dict(own):
    text = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, features):
        return self.layer((features["left"] + features["right"]).sigmoid())

def model():
    return Net()

def batch(size):
    return {"left": torch.randn(size, 4), "right": torch.randn(size, 4)}, torch.randint(3, (size,))
"""
    step = {"recipe": "compile", "activation_checkpointing": "0.5"}
    assert "without its activation budget" not in str(forecast(own.asked(text, step=step)).note)


@pytest.mark.parametrize(("size", "key"), [(4, "model"), (1, "batch_size")])
def test_a_batch_norm_over_one_value_is_the_batchs_fault_only_where_the_batch_is_one_sample(own, size, key):
    text = LINES + (
        "class Pooled(nn.Module):\n    def forward(self, x):\n        return x.mean(0, keepdim=True)\n"
        "def model():\n    return nn.Sequential(nn.Linear(4, 3), Pooled(), nn.BatchNorm1d(3))\n"
        "def loss(outputs, targets):\n    return outputs.sum()\n"
    )
    with pytest.raises((ProblemError, ValueError)) as raised:
        own.run(text, batch_size=size)
    problem = problem_of(raised.value)
    assert problem.key == key and ("batch size" in problem.remedy) is (size == 1)


ROOT = Path(__file__).resolve().parents[4]
_FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _documented(path: str) -> list[str]:
    """The Python texts on a page that define a model."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return [code for code in _FENCED.findall(text) if "def model(" in code]


FILES = {
    f"{path} {number}": code
    for path in ("README.md", "resources/guide/your-own-model.md")
    for number, code in enumerate(_documented(path), start=1)
}


@pytest.mark.parametrize("code", FILES.values(), ids=FILES)
def test_a_documented_file_trains(own, code):
    assert len(FILES) == 3
    losses = own.run(code, precision="bf16").losses
    assert len(losses) == 6 and all(map(math.isfinite, losses))


def test_on_another_machine_only_a_folder_of_the_users_own_is_moved_to(
    own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = own.asked(LINES).own_code
    monkeypatch.setenv("AMMETER_REMOTE", "1")
    monkeypatch.chdir(tmp_path.parent)
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    OwnFile(code, None, 0)
    assert Path.cwd() == tmp_path.parent
    monkeypatch.setattr(os, "getuid", lambda: real)
    OwnFile(code, None, 0)
    assert str(Path.cwd()) == code.folder
