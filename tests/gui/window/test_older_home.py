"""Runs, a search, a preset, settings and an archive that an older version wrote open as they were.

`home_of_0_1.zip` was written by the version at commit 4e34cfc, whose modules had other names: an FP32 and a
BF16 run of 72 steps, a search that found 1,855 samples in 0.15 GiB, a preset, and a closed window.
Its store has been brought to format 16 since.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_of
from engine.compare.figures import SPEED
from engine.experiment.experiment import Precision
from engine.experiment.presets import preset
from engine.export.archive.reader import import_archive
from engine.store.database import backups
from engine.store.record import Status
from engine.store.store import Store
from gui.theme.theme import theme
from gui.window.main_window import MainWindow

FP32, BF16 = "07b6de1fc00e", "02490cfac8ee"


@pytest.fixture
def home(home: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("home_of_0_1.zip")) as older:
        older.extractall(home)
    return home


@pytest.fixture
def as_dark() -> Iterator[None]:
    yield
    theme().set_mode("dark")


def test_its_runs_compare_as_before_and_its_search_has_its_answer(store: Store) -> None:
    bf16, fp32 = store.runs()
    assert [run.id for run in (fp32, bf16)] == [FP32, BF16]
    assert {run.status for run in (fp32, bf16)} == {Status.FINISHED}
    assert bf16.note == "kept from an older version" and fp32.tags == ("old",)
    assert (fp32.experiment.precision, bf16.experiment.precision) == (Precision.FP32, Precision.BF16)
    for run in (fp32, bf16):
        samples = store.samples(run.id)
        assert list(samples["step"]) == list(range(1, 73)) and samples["loss"].shape == (72,)
    rows = compare(evidence_of(store, (fp32, bf16)), FP32).figures
    (speed,) = (row for row in rows if row.figure.name == SPEED.name)
    assert speed.cells[1].ratio == pytest.approx(1.39, abs=0.005)
    (entry,) = store.studies.newest("limit")
    (search,) = store.studies.find(entry.id).answer.sides
    assert search.result is not None and search.result.largest_batch == 1_855 and search.result.verified
    assert [trial.fits for trial in search.trials if trial.batch_size in (1_855, 1_856)] == [False, True]


def test_its_archive_arrives_whole(home: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "other" / "ammeter.sqlite") as other:
        assert [run.id for run in import_archive(other, home / "runs.zip").added] == [FP32, BF16]


def test_its_preset_and_its_window_come_back(
    home: Path, start: Callable[[], MainWindow], as_dark: None
) -> None:
    kept = preset("kept-from-before")
    ((_, experiment),) = kept.experiments(has_gpu=False)
    assert kept.title == "Kept from before" and experiment.batch_size == 48
    window = start()
    assert window.page == "results" and theme().mode == "light"
    assert window.runs.checked() == (FP32, BF16)
    values = window.setup.state()["settings"]
    assert values["batch_size"] == "96"
    assert window.others.limit_panel.state()["margin"] == 0.1


CLOSES_ONCE_PAINTED = """
import os
import sys
from pathlib import Path
sys.modules["torch"] = None
from engine.installation import installed
installed.has_own_torch = lambda: False
from PySide6.QtCore import QTimer
from engine.store.database import backups
from gui.window import app
from gui.window.main_window import MainWindow
class Window(MainWindow):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.painted.connect(self.finish)
    def finish(self):
        assert backups(Path(os.environ["AMMETER_HOME"], "ammeter.sqlite"))
        QTimer.singleShot(0, self.close)
app.MainWindow = Window
sys.exit(app.run())
"""


@pytest.mark.slow
def test_a_process_that_cannot_import_torch_opens_it_and_removes_its_copy_as_it_closes(
    home: Path, tmp_path: Path
) -> None:
    (home / "window.json").unlink()  # its pages are others today
    ended = subprocess.run(
        [sys.executable, "-c", CLOSES_ONCE_PAINTED],
        env={**os.environ, "AMMETER_HOME": str(home), "AMMETER_ENGINE": str(tmp_path / "engine")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    path = home / "ammeter.sqlite"
    assert not backups(path)
    with Store(path) as store:
        assert len(store.runs()) == 2
