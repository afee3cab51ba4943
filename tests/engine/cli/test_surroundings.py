"""Cron, services and containers leave a program little: it answers all the same, or says why not."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.store.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shells and users of Linux")
ROOT = Path(__file__).parents[3]
AMMETER = f"{shlex.quote(sys.executable)} -P -m engine"
ASCII = "PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=C PYTHONIOENCODING=ascii"


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["sh", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_closed_streams_stop_nothing_and_are_never_those_of_another_file(home, tmp_path):
    with Store() as store:
        run = store.add(Experiment())
    # what is printed must not be written into the store, whose file would be the first that is opened
    deleted = shell(f"{AMMETER} delete {run.id} --json <&- >&- 2>&-", tmp_path)
    with Store() as store:
        assert (deleted.returncode, store.runs()) == (0, ())


@pytest.mark.slow
def test_names_of_any_letters_are_read_where_the_locale_knows_only_ascii(home, tmp_path):
    with Store() as store:
        store.rename(store.add(Experiment()).id, "Läufe ☃")
    assert "L?ufe" in shell(f"{ASCII} {AMMETER} results", tmp_path).stdout
    (tmp_path / "né.toml").write_text('batch_size = "é"', encoding="utf-8")
    refused = shell(f"{ASCII} {AMMETER} run --config né.toml", tmp_path)
    assert "batch_size" in refused.stderr and "Internal error" not in refused.stderr


@pytest.mark.slow
def test_where_python_itself_is_told_to_use_ascii_it_does(home, tmp_path):
    insists = AMMETER.replace(" -P ", " -X utf8=0 -P ")
    assert shell(f"{ASCII} timeout 60 {insists} results --json", tmp_path).returncode == 0


@pytest.mark.slow
def test_a_current_folder_that_was_removed_is_told_and_left(home, tmp_path):
    done = shell(f'mkdir gone; cd gone; rmdir "$PWD"; {AMMETER} results --json', tmp_path)
    assert done.returncode == 0 and '"runs": []' in done.stdout
    assert "The current folder was removed" in done.stderr
    relative = shell(f'mkdir gone; cd gone; rmdir "$PWD"; AMMETER_HOME=here {AMMETER} results', tmp_path)
    assert relative.returncode == 1 and "AMMETER_HOME" in relative.stderr


@pytest.mark.slow
def test_without_a_home_nothing_is_put_into_the_current_folder(tmp_path):
    data = "-u AMMETER_HOME -u XDG_DATA_HOME -u XDG_CONFIG_HOME"
    done = shell(f"env {data} HOME=relative setpriv --reuid 54321 --clear-groups {AMMETER} results", tmp_path)
    assert "Internal error" not in done.stderr
    assert [*tmp_path.iterdir()] == []
