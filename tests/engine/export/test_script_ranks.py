"""Scripts of runs on several devices, started by torchrun, train what their runs trained."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.problem import ProblemError
from engine.export.script.page import script_source
from engine.store.record import RunRecord
from engine.store.store import Store
from tests.engine.conftest import ENVIRONMENT
from tests.engine.export.test_script import EVERYTHING, check_style
from tests.engine.export.test_script_training import (
    FAKE,
    FASHION,
    OWN_FILES,
    TOKENS,
    TURNS,
    Course,
    told,
    trained_here,
    written,
)

Start = Callable[[Path, dict[str, str]], subprocess.Popen[bytes]]
NUMBERS: dict[str, Any] = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 45,
    "batch_size": 8,
    "epochs": 2,
}
CASES: dict[str, dict[str, Any]] = {
    "a static graph, FP16 with a scaler that skips, in half buckets, recomputed": {
        **FASHION,
        "image_size": 8,
        "precision": "fp16",
        "steps": 4,
        "scaler": {"init_scale": 2.0**30, "backoff_factor": 0.25},
        "ranks": {"reduction": "fp16", "bucket_mib": 0.1, "static_graph": True},
        "step": {"clip_norm": 0.5, "activation_checkpointing": True},
    },
    "loaded and augmented": {
        **FAKE,
        "batch_size": 450,
        "epochs": 1,
        "data": {"augment": True},
        "schedule": {"name": "cosine"},
    },
    "a static graph, dropout": {
        **TURNS,
        "model": "mobilenet_v3_small",
        "image_size": 32,
        "steps": 2,
        "ranks": {"static_graph": True},
    },
    "text": {
        **TOKENS,
        "dataset": "python-source",
        "num_classes": None,
        "validation": {"limit": 5},
        "ranks": {"find_unused_parameters": True},
    },
}
OWN: dict[str, dict[str, Any]] = {
    "pair.py": {"precision": "fp16", "steps": 4, "samples": 24, "scaler": {"init_scale": 2.0**30}},
    "stream.py": {"samples": 20, "batch_size": 4, "epochs": 2, "schedule": {"name": "cosine"}},
    "whole.py:Net": {"steps": 5},
}


RANKS = 2


def environment_of(rank: int, port: int) -> dict[str, str]:
    """That which torchrun makes for a rank on one machine."""
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, torch.get_num_threads() // RANKS))
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": threads}
    # the host's name may not resolve
    own |= {**meeting, "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **{name: str(value) for name, value in own.items()}}


def by_torchrun(path: Path) -> str:
    """What a script prints that torchrun starts."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS))
    given = environment_of(0, 0)
    # torchrun would give each process a single thread
    environment = {**os.environ, **{name: given[name] for name in ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME")}}
    done = subprocess.run(
        [sys.executable, *torchrun, str(path)],
        env=environment,
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_ranks(path: Path, start: Start) -> str:
    """The same without torchrun, whose processes would import torch anew for each script."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = [start(path, environment_of(rank, port)) for rank in range(RANKS)]
    streams = [(process.stdin, process.stdout, process.stderr) for process in processes]
    with ThreadPoolExecutor(2 * RANKS) as pool:
        read = [[pool.submit(stream.read) for stream in (out, err)] for _, out, err in streams if out and err]
    for stream in filter(None, (stream for three in streams for stream in three)):
        stream.close()
    said = [[each.result().decode() for each in two] for two in read]
    assert [process.wait() for process in processes] == [0] * RANKS, said
    return "".join(out for out, _ in said)


def course_of(
    settings: dict[str, Any], folder: Path, run_script: Callable[[Path], str]
) -> tuple[Course, Course]:
    """How the run went, and how its script went."""
    run, steps_per_epoch, course = trained_here({**settings, "devices": RANKS})
    return course, told(run_script(written(run, steps_per_epoch, folder)))


@pytest.fixture
def by_itself(start_script: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    monkeypatch.chdir(tmp_path)
    return partial(by_ranks, start=start_script)


@pytest.mark.slow
def test_started_by_torchrun_its_losses_are_the_runs_to_the_last_bit(tmp_path: Path) -> None:
    decays = {"epochs": 4, "schedule": {"name": "step", "decay_epochs": 1, "decay_factor": 0.5}}
    accumulated = {"step": {"gradient_accumulation": 2}}
    course, found = course_of({**NUMBERS, **decays, **accumulated}, tmp_path, by_torchrun)
    assert found == course


@pytest.mark.slow
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_its_losses_are_the_runs_to_the_last_bit(settings: dict[str, Any], tmp_path: Path, by_itself) -> None:
    course, found = course_of(settings, tmp_path, by_itself)
    assert found == course


@pytest.mark.slow
@pytest.mark.parametrize("model", OWN)
def test_of_a_models_own_file_its_losses_are_the_runs_to_the_last_bit(
    model: str, tmp_path: Path, by_itself
) -> None:
    settings = {"model": str(OWN_FILES / model), "batch_size": 8, **OWN[model]}
    code = with_code(settings, names_model=True, names_dataset=False)
    course, found = course_of(code, tmp_path, by_itself)
    assert found == course


def test_without_torchrun_it_says_how_to_start_it(
    run_of: Callable[..., RunRecord], tmp_path: Path, start_script: Start
) -> None:
    path = tmp_path / "run.py"
    path.write_text(script_source(run_of(**NUMBERS, device="cpu", devices=2)))
    with start_script(path, dict(os.environ)) as process:
        out, err = process.communicate()
    assert process.returncode == 1 and out == b""
    assert err.decode() == (
        "This script trains on 2 devices, one process per device. Start it with:\n"
        f"  torchrun --standalone --nproc-per-node 2 {path}\n"
    )


def test_on_several_cards_it_is_tidy_and_takes_those_that_the_run_took(
    run_of: Callable[..., RunRecord], tmp_path: Path
) -> None:
    for number, device in enumerate(("cuda", "cuda:2", "xpu:0")):
        for more in (EVERYTHING, {**NUMBERS, "checkpoint": {"last": True}, "ranks": {"reduction": "bf16"}}):
            text = script_source(run_of(**{**more, "device": device, "devices": 4}), 50)
            head = ast.get_docstring(ast.parse(text)) or ""
            assert head.endswith("Start it with:\n\n    torchrun --standalone --nproc-per-node 4 SCRIPT.py")
            (tmp_path / f"{number}-{more['model']}.py").write_text(text)
    check_style(tmp_path)
    assert (
        'DEVICE = torch.device("cuda", 2 + int(os.environ["LOCAL_RANK"]))'
        in (tmp_path / "1-linear.py").read_text()
    )
    assert 'init_process_group("xccl")' in (tmp_path / "2-linear.py").read_text()


def test_of_a_sharded_run_it_says_that_it_does_not_shard(run_of: Callable[..., RunRecord]) -> None:
    for strategy in ("fsdp", "ddp"):
        run = run_of(**NUMBERS, device="cpu", devices=2, ranks={"strategy": strategy})
        run = replace(run, environment=ENVIRONMENT)
        said = " ".join((ast.get_docstring(ast.parse(script_source(run))) or "").split())
        assert ("FSDP2 sharded the run's model" in said) == (strategy == "fsdp")
        assert ("bit for bit" in said) == (strategy == "ddp")


def test_how_many_devices_it_is_for_must_be_known(run_of: Callable[..., RunRecord]) -> None:
    for device, devices in (("cpu", 0), ("auto", 2)):
        with pytest.raises(ProblemError, match="Devices is not known until"):
            script_source(run_of(**NUMBERS, device=device, devices=devices))


@pytest.fixture
def run_of(exports_store: Store) -> Callable[..., RunRecord]:
    def make(**given: Any) -> RunRecord:
        return exports_store.add(experiment_from(given), name="Run")

    return make
