"""The observer sees how scripts of every kind train, and changes nothing for them."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
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
    ours = {name for name in os.environ if name.startswith("PYTHON")} - {"PYTHONPYCACHEPREFIX"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    if is_observed:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(OBSERVER.parent), path)))
        environment["AMMETER_OBSERVER_FOLDER"] = str(into or lines)
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=110
    )
    return Observed(done.returncode, done.stdout, done.stderr, written_in(lines))


def written_in(folder: Path) -> list[Process]:
    return [
        Process([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
        for file in sorted(folder.glob("*.jsonl"))
    ]


FORKED = """
import atexit, importlib.util, runpy, sys
import torch
if {is_observed}:
    spec = importlib.util.spec_from_file_location("sitecustomize", {observer!r})
    sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Observer(torch).install()
sys.argv[:] = {words!r}
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    # a forked process ends without these
    atexit._run_exitfuncs()
"""
Start = Callable[[Path, Mapping[str, str]], "subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class Forked:
    """Runs scripts in processes that are forked with torch imported, where the observer starts afterwards.

    A process that imports torch itself takes seconds to do so.
    """

    start: Start
    folder: Path

    def begin(
        self, words: Sequence[str], *, is_observed: bool = True, into: Path | None = None, **more: str
    ) -> subprocess.Popen[bytes]:
        (self.folder / "lines").mkdir(exist_ok=True)
        script = self.folder / "forked.py"
        script.write_text(
            FORKED.format(is_observed=is_observed, observer=str(OBSERVER), words=[*words]), encoding="utf-8"
        )
        folder = str(into or self.folder / "lines")
        return self.start(script, {**os.environ, "AMMETER_OBSERVER_FOLDER": folder, **more})

    def __call__(self, words: Sequence[str], **settings: Any) -> Observed:
        process = self.begin(words, **settings)
        with process:
            out, err = process.communicate(timeout=110)
        return Observed(process.returncode, out.decode(), err.decode(), written_in(self.folder / "lines"))


@pytest.fixture
def forked(start_script: Start, tmp_path: Path) -> Forked:
    return Forked(start_script, tmp_path)


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
def test_a_plain_loop(tmp_path: Path, forked: Forked) -> None:
    saved = str(tmp_path / "model.pt")
    seen = run([LOOP, "plain", saved], tmp_path)
    process = check_loop(seen)
    assert seen.out == forked([LOOP, "plain", saved + "2"], is_observed=False).out
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
    load = tmp_path / "load.py"
    load.write_text(
        "import sys, torch; print(torch.load(sys.argv[1], weights_only=False)(torch.ones(3, 6)).shape)"
    )
    assert forked([str(load), saved], is_observed=False).out == "torch.Size([3, 2])\n"


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


def test_a_gpu_is_named_by_its_uuid_where_torch_knows_it(tmp_path: Path, forked: Forked) -> None:
    (tmp_path / "of_a_gpu.py").write_text(OF_A_GPU)
    seen = forked([str(tmp_path / "of_a_gpu.py")])
    lines = [json.loads(line) for line in seen.out.splitlines()]
    found = [(line["device"], line["device_uuid"]) for line in lines]
    assert found == [("cuda:1", "ffc7-98"), ("cuda:0", "")], seen.err
    assert lines[0]["device_name"] == "H200" and lines[0]["device_memory_mib"] == 1_024.0


@pytest.mark.slow
def test_a_scaler_whose_first_step_is_skipped(forked: Forked) -> None:
    seen = forked([LOOP, "scaler"])
    process = check_loop(seen)
    assert process.begin["has_scaler"]
    assert process.column("skipped") == [1, 5]
    assert process.column("scale") == [512.0, 512.0, 512.0, 1024.0, 512.0, 512.0, 512.0, 1024.0]
    assert process.column("loss")[4] == "Infinity"
    assert seen.out == forked([LOOP, "scaler"], is_observed=False).out


@pytest.mark.slow
def test_accumulated_gradients_are_one_step(forked: Forked) -> None:
    process = check_loop(forked([LOOP, "accumulate"]))
    assert (process.begin["batch_size"], process.begin["has_scaler"]) == (12, False)


@pytest.mark.slow
def test_the_second_optimizer_of_a_gan_does_not_count(forked: Forked) -> None:
    process = check_loop(forked([LOOP, "gan"]))
    assert process.column("learning_rate") == [0.1] * 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "autocast", "dtype"), [("idle_autocast", "bfloat16", "float32"), ("bf16", None, "bfloat16")]
)
def test_the_dtypes_in_which_layers_really_ran(
    forked: Forked, kind: str, autocast: str | None, dtype: str
) -> None:
    begin = forked([LOOP, kind]).one.begin
    assert (begin["autocast"], begin["layers"]) == (autocast, {dtype: 1.0})
    assert begin["parameters"] == {dtype: 74}


@pytest.mark.slow
def test_a_compiled_model_is_compiled_no_more_often(forked: Forked) -> None:
    seen = forked([LOOP, "compiled"])
    process = check_loop(seen)
    assert seen.out == forked([LOOP, "compiled"], is_observed=False).out
    assert process.column("compiled") == [1, 6]
    begin = process.begin
    # no layer of a compiled model shows what it computes in
    assert (begin["is_compiled"], begin["autocast"], begin["layers"]) == (True, "bfloat16", {})


@pytest.mark.slow
def test_workers_of_a_loader_write_nothing(forked: Forked) -> None:
    check_loop(forked([LOOP, "loader"]))


@pytest.mark.slow
def test_a_forked_process_that_trains_has_a_file_of_its_own(forked: Forked) -> None:
    seen = forked([LOOP, "fork"])
    assert seen.status == 0
    (child,) = [process for process in seen.processes if process.begin["pid"] in seen.known["child"]]
    (parent,) = [process for process in seen.processes if process is not child]
    assert (parent.column("samples"), child.column("samples")) == ([12] * 4, [6] * 5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "status", "steps"), [("leave", 3, 2), ("interrupted", 0, 5)])
def test_a_script_may_end_as_it_likes(forked: Forked, kind: str, status: int, steps: int) -> None:
    seen = forked([LOOP, kind])
    assert (seen.status, seen.err) == (status, "")
    assert seen.one.column("samples") == [12] * steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["broken", "folder_gone", "unwritable"])
def test_its_own_errors_do_no_harm(forked: Forked, kind: str) -> None:
    # a folder in which nobody creates a file
    words, into = ([LOOP, "broken"], Path("/proc")) if kind == "unwritable" else ([LOOP, kind], None)
    seen = forked(words, into=into)
    assert (seen.status, len(seen.known["loss"])) == (0, 8)
    error = "Ammeter cannot observe this process: " if kind == "unwritable" else ""
    assert seen.err.startswith(error) and seen.err.count("\n") == bool(error)
    if kind == "broken":
        assert len(seen.one.problems) == 1
        assert seen.one.problems[0].startswith("IndexError")
    else:
        assert not seen.processes


@pytest.mark.slow
def test_the_ranks_of_a_run(forked: Forked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    meeting |= {"WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    # as torchrun starts them, which test_run.py does
    ranks = [forked.begin([str(SCRIPTS / "ranks.py")], RANK=str(rank), **meeting) for rank in range(2)]
    errors = [rank.communicate(timeout=110)[1] for rank in ranks]
    assert [rank.wait() for rank in ranks] == [0, 0], errors
    processes = written_in(forked.folder / "lines")
    assert len(processes) == 2
    for rank, process in enumerate(sorted(processes, key=lambda each: each.begin["rank"])):
        assert (process.begin["rank"], process.begin["world_size"]) == (rank, 2)
        assert process.column("samples") == [6 + rank] * 5


def check_trainer(seen: Observed, optimizer: str, samples: list[int]) -> None:
    assert seen.status == 0, seen.err
    process = seen.one
    assert (process.begin["optimizer"], process.begin["batch_size"]) == (optimizer, samples[0])
    assert (process.begin["autocast"], process.begin["layers"]) == ("bfloat16", {"bfloat16": 1.0})
    assert process.column("samples") == samples
    assert all(isinstance(loss, float) for loss in process.column("loss"))
    assert not process.problems


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "optimizer", "samples"),
    [(["lit.py"], "Adam", [5] * 12), (["language.py", "out"], "AdamW", [6] * 4)],
    ids=["lightning", "transformers"],
)
def test_trainers(
    tmp_path: Path,
    forked: Forked,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    optimizer: str,
    samples: list[int],
) -> None:
    monkeypatch.chdir(tmp_path)
    check_trainer(forked([str(SCRIPTS / words[0]), *words[1:]]), optimizer, samples)


@pytest.mark.slow
def test_the_process_that_a_launcher_starts(tmp_path: Path) -> None:
    words = ["-m", "accelerate.commands.launch", "--cpu", str(SCRIPTS / "accelerated.py")]
    check_trainer(run(words, tmp_path), "AdamW", [8] * 4)
