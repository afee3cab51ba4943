"""The copy of an older store stays until a window has opened, read its runs, and been closed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.store.database import backups
from engine.store.store import Store

ROOT = Path(__file__).parents[3]
A_WINDOW = """
import os
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from engine.store.database import backups
from gui.window import app

def shown(window):
    assert backups(Path(os.environ["AMMETER_HOME"], "ammeter.sqlite"))
    QTimer.singleShot(0, window.close_without_asking)

app._make_rest = shown
sys.exit(app.run())
"""


@pytest.mark.slow
def test_the_copy_is_removed_by_the_first_window_that_is_closed(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).with_name("home_of_0_1.zip")) as older:
        older.extractall(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", A_WINDOW],
        cwd=ROOT,
        env={**os.environ, "AMMETER_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    path = tmp_path / "ammeter.sqlite"
    assert not backups(path)
    with Store(path) as store:
        assert len(store.runs()) == 2
