"""Broken workload files: what is said of each, whether it names file and line, and what is left running.

    uv run python tests/benchmarks/broken_files.py [--only NAME ...] [--seconds 600] [--text]

Each goes the way of `ammeter run`, a check and then training in a worker; mistakes with mixed precision are
only checked. At the end a sound file has to train, by the same launcher and store.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from within import within

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import ProblemError
from engine.protocol.events import Failed, Finished, Log, PhaseName
from engine.protocol.findings import FindingKind
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher
from engine.worker.supervision import Limits

SOUND = """\
import ctypes, os, subprocess, sys, threading, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden)

def model():
    return Net()

def batch(size):
    return torch.randn(size, 8), torch.randint(8, (size,))

def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)
"""
STEP = """
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)

def step(train, batch):
    with train.autocast():
        loss = nn.functional.cross_entropy(train.model(batch[0]), batch[1])
    train.backward(loss)
    train.unscale(train.optimizer)
    nn.utils.clip_grad_norm_(train.model.parameters(), 1.0)
    train.step(train.optimizer)
"""
DATA = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.randn(8), index % 8

def dataset():
    return Data()
"""
IMPORT, MODEL, BATCH = "import torch\n", "return Net()", "torch.randn(size, 8)"
FORWARD, LAST = "hidden = self.first(x).relu()", "return self.last(hidden)"
LOSS, ITEM = "return nn.functional.cross_entropy(outputs, targets)", "return torch.randn(8), index % 8"
STEPS = "train.step(train.optimizer)"


@dataclass(frozen=True)
class Case:
    """`before` is replaced by `after` in the sound file with `more` at its end.

    `line` is part of the line to be named; None where there is none. `runs`: it is trained, not only checked.
    """

    name: str
    before: str
    after: str
    line: str | None
    more: str = ""
    runs: bool = True
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        whole = SOUND + self.more
        assert self.before in whole, self.name
        return whole.replace(self.before, self.after, 1)


def checked(name: str, before: str, after: str, line: str, more: str = "", **settings: Any) -> Case:
    return Case(name, before, after, line, more, runs=False, settings={"precision": "bf16", **settings})


def after_many(action: str) -> str:
    """Does it only once training is under way."""
    return f"{FORWARD}\n        Net.calls = getattr(Net, 'calls', 0) + 1\n        if Net.calls > 20: {action}"


SPAWN = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
PRINT = "for _ in range(50): print(('x' * 79 + chr(10)) * 12_500)"
THREAD = "threading.Thread(target=time.sleep, args=(600,)).start()"
CHANGES = """
import signal, warnings
sys.stdout = sys.stderr = None
os.chdir("/")
warnings.simplefilter("error")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
FLOAT64 = "torch.set_default_dtype(torch.float64)"
MISTAKES = [
    checked("half weights", MODEL, "return Net().half()", "half()", precision="fp16"),
    checked(
        "bfloat16 buffer",
        "super().__init__()",
        "super().__init__(); self.register_buffer('b', torch.zeros(8).bfloat16())",
        "register_buffer",
    ),
    checked("scaler with BF16", IMPORT, f"{IMPORT}scaler = torch.amp.GradScaler('cpu')\n", "GradScaler"),
    checked("clip before unscale", "train.unscale(train.optimizer)", "pass", "clip_grad", STEP),
    checked("scheduler step", STEPS, f"{STEPS}; train.scheduler.step()", "scheduler", STEP),
    checked("softmax in half", LOSS, "return -outputs.softmax(-1).log().mean()", "softmax"),
    checked(".item() in forward", FORWARD, f"{FORWARD}; hidden.max().item()", "item"),
    checked(".cpu() in forward", FORWARD, f"{FORWARD}; hidden.detach().cpu()", "cpu"),
    checked("print in forward", FORWARD, f"{FORWARD}; print(hidden)", "print"),
    checked(
        "branch in forward", FORWARD, f"{FORWARD}\n        if hidden.sum() > 0: hidden = hidden * 2", "if "
    ),
    checked("parameters without gradient", LAST, "return hidden", "def forward"),
    checked("output is no float", LAST, "return self.last(hidden).argmax(-1)", "def forward"),
    Case("no such file", "", "", None),
    Case("not Python", "def model():", "def model(:", "def model("),
    Case("no model", "def model():", "def network():", None),
    Case("model is no module", MODEL, "return 3", "def model"),
    Case("dataset of length 0", "return 64", "return 0", "def dataset", DATA),
    Case("batch of two sizes", BATCH, "torch.randn(size + 1, 8)", "def batch"),
    Case("loss is no scalar", LOSS, "return outputs", "def loss"),
    Case(
        "no optimizer",
        "return torch.optim.SGD(model.parameters(), lr=0.1)",
        "return 3",
        "def optimizer",
        STEP,
    ),
    Case("step without train.step", STEPS, "pass", "def step", STEP),
    Case("raises at import", IMPORT, f"{IMPORT}raise ValueError('mine')\n", "raise"),
    Case("raises in model()", MODEL, "return Net(1)", "Net(1)"),
    Case("raises in forward", FORWARD, f"{FORWARD} + undefined", "undefined"),
    Case("raises in loss", LOSS, "return undefined", "undefined"),
    Case("raises in batch", BATCH, "undefined, 1", "undefined"),
    Case("raises in __getitem__", ITEM, "return undefined", "undefined", DATA),
    Case(
        "raises in a loader process",
        ITEM,
        f"if index == 63: raise ValueError('mine')\n        {ITEM}",
        "raise",
        DATA,
        settings={"data": {"workers": 1}},
    ),
    Case(
        "sys.exit in a loader process",
        ITEM,
        f"if index == 63: sys.exit(3)\n        {ITEM}",
        "sys.exit",
        DATA,
        settings={"data": {"workers": 1}},
    ),
    Case(
        "crash in a loader process",
        ITEM,
        f"if index == 63: ctypes.string_at(0)\n        {ITEM}",
        "string_at",
        DATA,
        settings={"data": {"workers": 1}},
    ),
    Case("raises in mid-run", FORWARD, after_many("raise ValueError('mine')"), "raise"),
    Case("sys.exit at import", IMPORT, f"{IMPORT}sys.exit(3)\n", "sys.exit"),
    Case("sys.exit in forward", FORWARD, f"{FORWARD}; sys.exit()", "sys.exit"),
    Case("os._exit at import", IMPORT, f"{IMPORT}os._exit(0)\n", "os._exit"),
    Case("os._exit in mid-run", FORWARD, after_many("os._exit(0)"), "os._exit"),
    Case("forks at import", IMPORT, f"{IMPORT}os.fork()\n", "os.fork"),
    Case("forks in forward", FORWARD, f"{FORWARD}; os.fork()", "os.fork"),
    Case("endless loop at import", IMPORT, f"{IMPORT}while True: pass\n", "while"),
    Case("endless loop in forward", FORWARD, f"{FORWARD}\n        while True: pass", "while"),
    Case("endless loop in mid-run", FORWARD, after_many("\n            while True: pass"), "while"),
    Case("crash at import", IMPORT, f"{IMPORT}ctypes.string_at(0)\n", "string_at"),
    Case("crash in forward", FORWARD, f"{FORWARD}; ctypes.string_at(0)", "string_at"),
    Case("crash in mid-run", FORWARD, after_many("ctypes.string_at(0)"), "string_at"),
    Case("kills itself", FORWARD, after_many("os.kill(os.getpid(), 9)"), None),
]
HARMLESS = [
    Case("prints 50 MB", IMPORT, f"{IMPORT}{PRINT}\n", None),
    Case("prints 50 MB in a line", IMPORT, f"{IMPORT}print('x' * 50_000_000)\n", None),
    Case("a child that outlives it", IMPORT, f"{IMPORT}{SPAWN}\n", None),
    Case("a child, then a crash", FORWARD, after_many(f"{SPAWN}; ctypes.string_at(0)"), "string_at"),
    Case("a thread without end", IMPORT, f"{IMPORT}{THREAD}\n", None),
    Case("changes the process", IMPORT, f"{IMPORT}{CHANGES}", None),
    Case("float64 as default", IMPORT, f"{IMPORT}{FLOAT64}\n", None),
]
LIMIT_SECONDS = 30.0
"""Without a step. Only an endless loop in mid-run takes as long; Check has its own limit."""
MARK, TOKEN = "AMMETER_BROKEN_FILES", uuid.uuid4().hex


def experiment_of(case: Case, folder: Path) -> Experiment:
    """Raises ProblemError."""
    path = folder / "net.py"
    path.write_text(case.text, encoding="utf-8")
    if case.name == "no such file":
        path = folder / "gone.py"
    asked = {
        "model": str(path),
        "batch_size": 8,
        "samples": 64,
        "steps": 60,
        "device": "cpu",
        "measure": {"warmup_steps": 1, "block_steps": 1},
        **case.settings,
    }
    return experiment_from(with_code(asked, names_model=True, names_dataset=False))


@dataclass
class Outcome:
    said: str = ""
    trained: bool = False
    seconds: float = 0.0
    left: tuple[str, ...] = ()
    saved: str = ""


def outcome_of(case: Case, folder: Path, runner: Runner, store: Store) -> Outcome:
    outcome, run_id, remarks = Outcome(), None, []
    began = time.perf_counter()
    try:
        experiment = experiment_of(case, folder)
        TrustedCode().add(experiment.own_code)
        if case.runs:
            run_id = store.add(experiment).id
            for event in runner.run(run_id):
                if isinstance(event, Log) and event.level == "warning":
                    remarks.append(event.message)
                elif isinstance(event, Failed):
                    outcome.said = f"{event.problem.message} {event.problem.remedy}"
                outcome.trained = isinstance(event, Finished)
        else:
            findings = [
                finding
                for finding in runner.check(experiment).findings
                if finding.severity != "note" and finding.kind is not FindingKind.EMULATED
            ]
            outcome.said = " ".join(f"{finding.sentence} {finding.remedy}" for finding in findings)
    except ProblemError as error:
        outcome.said = f"{error.problem.message} {error.problem.remedy}"
    outcome.said = outcome.said or " ".join(remarks)
    outcome.seconds = time.perf_counter() - began
    outcome.saved = next((run.status for run in store.runs() if run.id == run_id), "")
    return outcome


def left_running(idle: frozenset[int]) -> tuple[str, ...]:
    """Processes that a worker of this run started, but for idle workers, after they had time to end."""
    deadline = time.monotonic() + 3.0
    while (left := tuple(_marked(idle))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _marked(idle: frozenset[int]) -> Iterator[str]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                process.pid != os.getpid()
                and process.pid not in idle
                and process.environ().get(MARK) == TOKEN
            ):
                yield f"{process.pid} {process.name()}"


def named(case: Case, said: str) -> str:
    """How the sentence names the place: "line", "file", or "no"."""
    file = "gone.py" if case.name == "no such file" else "net.py"
    lines = [
        number for number, line in enumerate(case.text.splitlines(), 1) if case.line and case.line in line
    ]
    told = [int(number) for number in re.findall(r"net\.py(?::|,? line |[^,]*: line )(\d+)", said)]
    if lines:
        return "line" if set(lines) & set(told) else f"no: line {lines[0]}" if told else "no"
    return "file" if file in said else "no"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="cases whose name contains it")
    parser.add_argument("--seconds", type=float, help="no case begins after so many")
    parser.add_argument("--text", action="store_true", help="print the sentences in full")
    options = parser.parse_args()
    cases = [
        case
        for case in (*MISTAKES, *HARMLESS)
        if not options.only or any(part in case.name for part in options.only)
    ]
    usual = Limits()
    steps = dict.fromkeys((PhaseName.WARMING_UP, PhaseName.MEASURING), LIMIT_SECONDS)
    limits = Limits(standstill={**usual.standstill, **steps})
    rows: list[tuple[Case, Outcome]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        launcher = Launcher(limits=limits, environment={MARK: TOKEN})
        with Store(home / "runs.sqlite") as store, launcher:
            runner = Runner(store, launcher)
            for case in within(cases, options.seconds):
                outcome = outcome_of(case, home, runner, store)
                outcome.left = left_running(launcher.idle_worker_pids)
                rows.append((case, outcome))
                print_row(case, outcome, options.text)
            sound = outcome_of(Case("sound", "", "", None), home, runner, store)
    mistakes = [(case, outcome) for case, outcome in rows if case not in HARMLESS]
    well = [case for case, outcome in mistakes if not named(case, outcome.said).startswith("no")]
    left = sum(len(outcome.left) for _, outcome in rows)
    print(f"{len(well)} of {len(mistakes)} mistakes are named; {left} processes were left running; ", end="")
    print(f"afterwards a sound file {'trains' if sound.trained else 'fails: ' + sound.said}")


def print_row(case: Case, outcome: Outcome, whole: bool) -> None:
    place = "" if case in HARMLESS and outcome.trained else named(case, outcome.said)
    said = outcome.said if whole else outcome.said[:110]
    end = outcome.saved or "-"
    left = ", ".join(outcome.left) or "-"
    print(f"{case.name:<30}{place:<14}{end:<10}{outcome.seconds:>6.1f} s  {left:<16}{said}", flush=True)


if __name__ == "__main__":
    main()
