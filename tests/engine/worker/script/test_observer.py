"""The observer sees how scripts of every kind train, and changes nothing for them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import engine

OBSERVER = Path(engine.__file__).parent / "worker" / "script" / "observer" / "sitecustomize.py"
SCRIPTS = Path(__file__).parent / "scripts"
LOOP = str(SCRIPTS / "loop.py")


@dataclass(frozen=True)
class Process:
    """The lines of one process, its columns joined."""

    lines: list[dict[str, Any]]

    @property
    def begin(self) -> dict[str, Any]:
        (line,) = self.of_kind("begin")
        assert self.lines[0] is line
        return line

    @property
    def problems(self) -> list[str]:
        return [line["message"] for line in self.of_kind("problem")]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]

    def column(self, name: str) -> list[Any]:
        return [value for line in self.of_kind("steps") for value in line[name]]


@dataclass(frozen=True)
class Observed:
    """A command that ran: what it printed and what the observer wrote."""

    status: int
    out: str
    err: str
    processes: list[Process]

    @property
    def one(self) -> Process:
        assert self.processes, self.err
        (process,) = self.processes
        return process

    @property
    def known(self) -> dict[str, Any]:
        """The values that a loop printed about itself."""
        value: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return value


def run(
    words: Sequence[str], folder: Path, *, is_observed: bool = True, path: str = "", into: Path | None = None
) -> Observed:
    lines = folder / "lines"
    lines.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    if is_observed:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(OBSERVER.parent), path)))
        environment["AMMETER_OBSERVER_FOLDER"] = str(into or lines)
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=110
    )
    found = [
        Process([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
        for file in sorted(lines.glob("*.jsonl"))
    ]
    return Observed(done.returncode, done.stdout, done.stderr, found)


def check_loop(seen: Observed) -> Process:
    """Check that a loop's columns are what it printed about itself; return its process."""
    process = seen.one
    assert (seen.status, process.problems) == (0, []), seen.err
    steps = len(seen.known["loss"])
    assert process.column("step") == list(range(1, steps + 1))
    assert [float(value) for value in process.column("loss")] == pytest.approx(
        [float.fromhex(value) for value in seen.known["loss"]], rel=1e-15
    )
    assert process.column("samples") == seen.known["samples"]
    seconds = process.column("seconds")
    assert seconds == sorted(seconds) and seconds[0] > 0.0
    end = process.lines[-1]
    assert end == {"kind": "end", "steps": steps, "is_compiled": process.begin["is_compiled"]}
    return process


def test_it_is_python_3_9_and_imports_nothing_before_torch(tmp_path: Path) -> None:
    tree = ast.parse(OBSERVER.read_text(encoding="utf-8"), feature_version=(3, 9))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import os", "import sys"]
    words = ["-c", "import sys; print(sorted(sys.modules))"]
    seen, bare = (run(words, tmp_path, is_observed=is_observed) for is_observed in (True, False))
    assert set(ast.literal_eval(seen.out)) - set(ast.literal_eval(bare.out)) <= {"sitecustomize"}
    assert not seen.processes


def test_the_sitecustomize_behind_it_runs_too_and_its_errors_are_reported(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("MARK = 42\n", encoding="utf-8")
    words = ["-c", "import sitecustomize; print(sitecustomize.MARK)"]
    assert run(words, tmp_path, path=str(other)).out == "42\n"
    # also where the observer has nothing to do
    assert run(words, tmp_path, path=str(other), into=tmp_path / "gone").out == "42\n"
    (other / "sitecustomize.py").write_text("raise ValueError('mine')\n", encoding="utf-8")
    seen = run(["-c", "print('on')"], tmp_path, path=str(other))
    assert (seen.out, "ValueError: mine" in seen.err) == ("on\n", True)


@pytest.mark.slow
def test_a_plain_loop(tmp_path: Path) -> None:
    saved = str(tmp_path / "model.pt")
    seen = run([LOOP, "plain", saved], tmp_path)
    process = check_loop(seen)
    assert seen.out == run([LOOP, "plain", saved + "2"], tmp_path, is_observed=False).out
    begin = process.begin
    assert (begin["rank"], begin["world_size"], begin["device"]) == (0, 1, "cpu")
    assert (begin["optimizer"], begin["batch_size"], begin["parameters"]) == ("AdamW", 12, {"float32": 74})
    assert (begin["autocast"], begin["layers"], begin["has_scaler"]) == ("bfloat16", {"bfloat16": 1.0}, False)
    assert begin["python"] == ".".join(map(str, sys.version_info[:3]))
    assert process.column("loss")[-1] == "Infinity"
    assert process.column("learning_rate") == seen.known["rate"]
    assert process.of_kind("steps")[0]["scale"] is None
    memory = process.of_kind("steps")[-1]
    assert memory["allocated_mib"] is None
    if sys.platform == "linux":
        assert 0.0 < memory["resident_mib"] <= memory["peak_resident_mib"]
    # a saved model needs no observer
    load = "import sys, torch; print(torch.load(sys.argv[1], weights_only=False)(torch.ones(3, 6)).shape)"
    assert run(["-c", load, saved], tmp_path / "lines", is_observed=False).out == "torch.Size([3, 2])\n"


OF_A_GPU = """
import json, torch, sitecustomize
from types import SimpleNamespace
observer = sitecustomize.Observer(torch)
uuids = {"cuda:1": {"uuid": "ffc7-98"}, "cuda:0": {}}
def properties(device): return SimpleNamespace(name="H200", total_memory=2**30, **uuids[str(device)])
observer.cuda = SimpleNamespace(get_device_properties=properties)
observer.is_cuda, observer.rows = True, [{"samples": 1}]
for name in uuids:
    observer.device = torch.device(name)
    print(json.dumps(observer.begin_line()))
"""


def test_a_gpu_is_named_by_its_uuid_where_torch_knows_it(tmp_path: Path) -> None:
    seen = run(["-c", OF_A_GPU], tmp_path)
    lines = [json.loads(line) for line in seen.out.splitlines()]
    found = [(line["device"], line["device_uuid"]) for line in lines]
    assert found == [("cuda:1", "ffc7-98"), ("cuda:0", "")], seen.err
    assert lines[0]["device_name"] == "H200" and lines[0]["device_memory_mib"] == 1_024.0


@pytest.mark.slow
def test_a_scaler_whose_first_step_is_skipped(tmp_path: Path) -> None:
    seen = run([LOOP, "scaler"], tmp_path)
    process = check_loop(seen)
    assert process.begin["has_scaler"]
    assert process.column("skipped") == [1, 5]
    assert process.column("scale") == [512.0, 512.0, 512.0, 1024.0, 512.0, 512.0, 512.0, 1024.0]
    assert process.column("loss")[4] == "Infinity"
    assert seen.out == run([LOOP, "scaler"], tmp_path, is_observed=False).out


@pytest.mark.slow
def test_accumulated_gradients_are_one_step(tmp_path: Path) -> None:
    process = check_loop(run([LOOP, "accumulate"], tmp_path))
    assert (process.begin["batch_size"], process.begin["has_scaler"]) == (12, False)


@pytest.mark.slow
def test_the_second_optimizer_of_a_gan_does_not_count(tmp_path: Path) -> None:
    process = check_loop(run([LOOP, "gan"], tmp_path))
    assert process.column("learning_rate") == [0.1] * 8


@pytest.mark.slow
def test_the_dtypes_in_which_layers_really_ran(tmp_path: Path) -> None:
    for kind, autocast, dtype in (("idle_autocast", "bfloat16", "float32"), ("bf16", None, "bfloat16")):
        folder = tmp_path / kind
        folder.mkdir()
        begin = run([LOOP, kind], folder).one.begin
        assert (begin["autocast"], begin["layers"]) == (autocast, {dtype: 1.0})
        assert begin["parameters"] == {dtype: 74}


@pytest.mark.slow
def test_a_compiled_model_is_compiled_no_more_often(tmp_path: Path) -> None:
    seen = run([LOOP, "compiled"], tmp_path)
    process = check_loop(seen)
    assert seen.out == run([LOOP, "compiled"], tmp_path, is_observed=False).out
    assert process.column("compiled") == [1, 6]
    begin = process.begin
    # no layer of a compiled model shows what it computes in
    assert (begin["is_compiled"], begin["autocast"], begin["layers"]) == (True, "bfloat16", {})


@pytest.mark.slow
def test_workers_of_a_loader_write_nothing(tmp_path: Path) -> None:
    check_loop(run([LOOP, "loader"], tmp_path))


@pytest.mark.slow
def test_a_forked_process_that_trains_has_a_file_of_its_own(tmp_path: Path) -> None:
    seen = run([LOOP, "fork"], tmp_path)
    assert seen.status == 0
    (child,) = [process for process in seen.processes if process.begin["pid"] in seen.known["child"]]
    (parent,) = [process for process in seen.processes if process is not child]
    assert (parent.column("samples"), child.column("samples")) == ([12] * 4, [6] * 5)
    assert child.lines[-1] == {"kind": "end", "steps": 5, "is_compiled": False}


@pytest.mark.slow
def test_a_script_may_end_as_it_likes(tmp_path: Path) -> None:
    for kind, status, steps in (("leave", 3, 2), ("interrupted", 0, 5)):
        folder = tmp_path / kind
        folder.mkdir()
        seen = run([LOOP, kind], folder)
        assert (seen.status, seen.err) == (status, "")
        assert seen.one.lines[-1] == {"kind": "end", "steps": steps, "is_compiled": False}
        assert seen.one.column("samples") == [12] * steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["broken", "folder_gone", "unwritable"])
def test_its_own_errors_do_no_harm(tmp_path: Path, kind: str) -> None:
    if kind == "unwritable":
        # a folder in which nobody creates a file
        seen = run([LOOP, "broken"], tmp_path, into=Path("/proc"))
    else:
        seen = run([LOOP, kind], tmp_path)
    assert (seen.status, len(seen.known["loss"])) == (0, 8)
    error = "Ammeter cannot observe this process: " if kind == "unwritable" else ""
    assert seen.err.startswith(error) and seen.err.count("\n") == bool(error)
    if kind == "broken":
        assert len(seen.one.problems) == 1
        assert seen.one.problems[0].startswith("IndexError")
    else:
        assert not seen.processes


@pytest.mark.slow
def test_ranks_of_torchrun(tmp_path: Path) -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPTS / "ranks.py")]
    seen = run(words, tmp_path)
    assert (seen.status, len(seen.processes)) == (0, 2), seen.err
    for rank, process in enumerate(sorted(seen.processes, key=lambda each: each.begin["rank"])):
        assert (process.begin["rank"], process.begin["world_size"]) == (rank, 2)
        assert process.column("samples") == [6 + rank] * 5
        assert process.lines[-1]["steps"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "optimizer", "samples"),
    [
        (["lit.py"], "Adam", [5] * 12),
        (["-m", "accelerate.commands.launch", "--cpu", "accelerated.py"], "AdamW", [8] * 4),
        (["language.py", "out"], "AdamW", [6] * 4),
    ],
    ids=["lightning", "accelerate", "transformers"],
)
def test_trainers(tmp_path: Path, words: list[str], optimizer: str, samples: list[int]) -> None:
    seen = run([str(SCRIPTS / word) if word.endswith(".py") else word for word in words], tmp_path)
    assert seen.status == 0, seen.err
    process = seen.one
    assert (process.begin["optimizer"], process.begin["batch_size"]) == (optimizer, samples[0])
    assert (process.begin["autocast"], process.begin["layers"]) == ("bfloat16", {"bfloat16": 1.0})
    assert process.column("samples") == samples
    assert all(isinstance(loss, float) for loss in process.column("loss"))
    assert not process.problems
