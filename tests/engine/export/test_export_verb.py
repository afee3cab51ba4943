"""`ammeter export` writes what was asked for, or says in a sentence why not, and leaves nothing half done."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.experiment.paths import store_path
from engine.export.content import Content
from engine.export.formats import COMPARISON
from engine.store.store import Store

ROOT = Path(__file__).parents[3]
Trained = Callable[..., str]

_OTHERS = (".html", ".svg", ".csv", ".json", ".md", ".tex")
"""The formats that no other test gives every kind of run."""


@pytest.fixture
def exports_store(home: Path) -> Iterator[Store]:
    """The store that the verb reads."""
    with Store(store_path()) as opened:
        yield opened


def test_it_writes_a_pair_of_runs(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [trained("fp32"), trained("bf16", speed=1_500.0)]
    assert main(["export", *ids, "--to", str(tmp_path / "x.md")]) == 0
    assert "BF16 AMP trained 1.50 times as fast" in (tmp_path / "x.md").read_text()
    assert capsys.readouterr().out == f"Wrote 2 runs to {tmp_path / 'x.md'}.\n"
    assert main(["export", *ids, "--to", str(tmp_path / "x.tex"), "--baseline", ids[1], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"to": str(tmp_path / "x.tex"), "runs": ids}
    named = [*ids, "--to", str(tmp_path / "y.md"), "--title", "Ours", "--lead", ids[0], "--baseline", ids[1]]
    assert main(["export", *named]) == 0
    text = (tmp_path / "y.md").read_text()
    assert text.startswith("## Ours\n") and "FP32 trained" in text


def test_what_is_there_stays_unless_force_is_given(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, path = trained(), tmp_path / "x.csv"
    path.write_text("mine")
    assert main(["export", run_id, "--to", str(path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"].endswith("already exists.") and "--force" in error["remedy"]
    assert path.read_text() == "mine"
    assert main(["export", run_id, "--to", str(path), "--force"]) == 0
    assert path.read_text().startswith("run_id,")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ffff"], "No run, sweep or study id starts"),
        (["{id}", "--plot", "loss"], "--plot, --by and --theme apply to images only"),
        (["{id}", "--baseline", "ffff"], "No run id starts"),
    ],
)
def test_other_wrong_requests_are_answered_too(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    run_id = trained()
    given = [argument.format(id=run_id) for argument in arguments]
    assert main(["export", *given, "--to", str(tmp_path / "x.md")]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "x.md").exists()


@pytest.mark.parametrize("suffix", [one.suffix for one in COMPARISON.formats if one.suffix in _OTHERS])
def test_every_format_takes_every_kind_of_run(hostile: Content, tmp_path: Path, suffix: str) -> None:
    path = COMPARISON.export(hostile, tmp_path / f"x{suffix}")
    assert path.stat().st_size > 500
    beside = {entry.name for entry in tmp_path.iterdir()} - {"home", "data", "exported"}
    assert all(name.startswith("x") for name in beside)


@pytest.mark.slow
def test_an_export_loads_neither_qt_nor_torch(trained: Trained, tmp_path: Path) -> None:
    run_id = trained()
    targets = [f"{tmp_path}/x{suffix}" for suffix in (".html", ".pdf", ".png", ".csv", ".json", "/")]
    script = (
        "import sys; from engine.cli.app import main;"
        f"codes = [main(['export', {run_id!r}, '--to', to]) for to in {targets!r}];"
        "loaded = {'torch', 'torchvision', 'PySide6', 'pyqtgraph', 'gui'} & set(sys.modules);"
        "sys.exit(str(loaded) if loaded or any(codes) else 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
