"""The machines in the window: the list of the chip, the dialog that adds one, and what a switch changes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.request import InstallRequest
from engine.machines import remote_site
from engine.machines.machine import Machine, Machines, keep_catalog, kept_catalog, new_machine
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Event, Phase, PhaseName
from engine.store.record import Status
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.worker.launcher import Launcher, Session
from engine.worker.site import Site
from gui.installation.setup import EngineSetup, remote_installer
from gui.widgets.messages import LEAVE, STOP
from gui.window.add_machine import MachineDialog
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings
from tests.engine.machines.conftest import put_python
from tests.gui.installation.conftest import INSTALLATION
from tests.gui.machines import CATALOG, WAIT_MS, Told

REMOTE_CATALOG = CATALOG.model_copy(
    update={"devices": (CATALOG.devices[0].model_copy(update={"title": "A far card"}),)}
)
SETTINGS = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}


class NamedSite(Site):
    keeps_spare = False

    def __init__(self, name: str) -> None:
        self.name = name

    def require_engine(self) -> None: ...


class Answering(Launcher):
    """Knows a catalog, or says why not; what it trains goes on until it is stopped."""

    def __init__(self, name: str, problem: Problem | None = None) -> None:
        super().__init__(site=NamedSite(name))
        self.problem = problem
        self.trained: list[jobs.Job] = []

    def start(self, job: jobs.Job, keep: object = None) -> Session:
        if isinstance(job, jobs.ReadCatalog):
            if self.problem is not None:
                raise ProblemError(self.problem)
            return Told(CatalogRead(catalog=REMOTE_CATALOG if self.site.name else CATALOG))
        self.trained.append(job)
        return Told()


class Waiting(Told):
    """Says that it waits for a node, and waits."""

    _said: Phase | None = Phase(name=PhaseName.WAITING, detail="waiting for a free node")

    def next_event(self, timeout_seconds: float) -> Event | None:
        said, self._said = self._said, None
        return said or super().next_event(timeout_seconds)


@pytest.fixture
def launchers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Answering]:
    """Those of the machines, by name."""
    made = {"": Answering(""), "box": Answering("box")}
    monkeypatch.setattr(remote_site, "launcher_on", lambda machine: made[machine.name])
    return made


@pytest.fixture
def window(
    qtbot: QtBot, only_first_view: None, tmp_path: Path, launchers: dict[str, Answering], saved: Store
) -> Iterator[MainWindow]:
    Machines().put(new_machine("box", "me@box"))
    made = MainWindow(saved, launchers[""], Settings(tmp_path / "window.json", {"workspace": "experiment"}))
    qtbot.addWidget(made)
    made.resize(1_440, 900)
    made.show()
    qtbot.waitUntil(lambda: made.experiments.catalog is not None, timeout=WAIT_MS)
    yield made
    made.close_without_asking()


def entries(window: MainWindow) -> list[str]:
    return [action.text() for action in window.machines.list_menu().actions() if action.text()]


def switch(qtbot: QtBot, window: MainWindow, name: str) -> None:
    window.machines.use(name)
    qtbot.waitUntil(lambda: window.experiments.catalog is not None, timeout=WAIT_MS)


def test_a_switch_asks_the_other_machine_keeps_the_draft_and_is_remembered(qtbot, window):
    assert entries(window) == ["This machine", "box\tnot set up yet", "Add a machine…"]
    window.setup.choose_preset("hello-amp")
    before = window.setup.draft
    switch(qtbot, window, "box")
    assert entries(window)[1] == "box\tready"
    assert entries(window)[3:] == ["Edit box…", "Check box", "PyTorch on box…", "Remove box…"]
    assert window.machines.state() == window.experiments.catalog.machine == "box"
    assert "box · A far card" in window.top_bar.device._title._whole
    assert window.top_bar.device.accessibleName() == "Device on box: A far card, 16.0 GiB"
    assert window.setup.draft.base == before.base
    forecasts = window.experiments.forecasts()
    assert forecasts._path != Forecasts(window.experiments.store_path.parent)._path
    switch(qtbot, window, "")
    assert window.top_bar.device.accessibleName().startswith("Device: A processor")
    for name, used in (("gone", ""), ("box", "box")):
        window.machines.restore(name)
        assert window.experiments.machine == used


def test_what_waits_keeps_its_machine_and_its_row_names_it(qtbot, window, launchers):
    switch(qtbot, window, "box")
    (first,) = window.experiments.submit("", [("", experiment_from(SETTINGS))])
    (second,) = window.experiments.submit("", [("", experiment_from(SETTINGS))])
    qtbot.waitUntil(lambda: bool(launchers["box"].trained), timeout=WAIT_MS)
    switch(qtbot, window, "")
    (here,) = window.experiments.submit("", [("", experiment_from(SETTINGS))])
    machines = {item.key: item.machine for item in window.experiments.works.items()}
    assert machines == {first: "box", second: "box", here: ""}
    qtbot.waitUntil(lambda: len(window.backstage.queue.table.rows()) == 3, timeout=WAIT_MS)
    table = window.backstage.queue.table
    (state,) = (column for column in table.columns() if column.title == "State")
    states = [state.text(slot) for slot in table.rows()]
    assert states[1:] == ["Waiting for box", "Waiting"]
    assert launchers[""].trained == []
    window.experiments.stop()
    qtbot.waitUntil(lambda: len(launchers["box"].trained) == 2, timeout=WAIT_MS)
    window.experiments.stop()
    qtbot.waitUntil(lambda: bool(launchers[""].trained), timeout=WAIT_MS)
    window.experiments.stop()
    qtbot.waitUntil(lambda: window.experiments.is_idle, timeout=WAIT_MS)


def test_a_machine_that_does_not_answer_is_told_and_asked_again(qtbot, window, launchers):
    launchers["box"].problem = Problem(kind=Kind.REQUEST, message="There is no connection.", remedy="Look.")
    window.machines.use("box")
    qtbot.waitUntil(lambda: window.experiments.catalog_problem is not None, timeout=WAIT_MS)
    assert entries(window)[1] == "box\tdoes not answer"
    assert not window.setup.run_action.isEnabled()
    assert "There is no connection." in window.setup.foot.text()
    launchers["box"].problem = None
    window.setup.foot.engine_button.click()
    qtbot.waitUntil(lambda: window.experiments.catalog is not None, timeout=WAIT_MS)
    assert entries(window)[1] == "box\tready"


def test_a_machine_without_an_engine_offers_to_set_it_up_and_sends_nothing_before(qtbot, window, launchers):
    launchers["box"].problem = Problem(kind=Kind.NO_ENGINE, message="Not set up on box.", remedy="Set it up.")
    window.machines.use("box")
    qtbot.waitUntil(lambda: not window.experiments.engine.is_usable, timeout=WAIT_MS)
    assert entries(window)[1] == "box\tnot set up"
    assert window.setup.foot.engine_button.text() == "Install PyTorch"
    assert not window.engine.page.isVisible()
    switch(qtbot, window, "")
    assert window.engine.engine.is_usable and not window.setup.foot.engine_button.isVisible()


def test_removing_asks_and_goes_back_to_this_machine(qtbot, window, monkeypatch):
    switch(qtbot, window, "box")
    answers = iter((None, "Keep its files"))
    monkeypatch.setattr("gui.window.machines.choose", lambda *_: next(answers))
    window.machines.remove("box")
    assert window.experiments.machine == "box"
    window.machines.remove("box")
    qtbot.waitUntil(lambda: window.experiments.machine == "", timeout=WAIT_MS)
    assert Machines().all() == ()


def test_a_machine_that_is_gone_meanwhile_is_not_edited(window):
    Machines().remove("box")
    window.machines.edit("box")
    assert "machine" in window.notice.text() and not window.findChildren(MachineDialog)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "closes"), [(LEAVE, True), (STOP, True), ("Cancel", False)])
def test_closing_during_a_run_elsewhere_asks_what_becomes_of_it(
    qtbot, window, launchers, monkeypatch, answer, closes
):
    switch(qtbot, window, "box")
    window.experiments.submit("", [("", experiment_from(SETTINGS))])
    qtbot.waitUntil(lambda: window.experiments.can_leave_running, timeout=WAIT_MS)
    asked = []

    def press(box: QMessageBox) -> int:
        asked.append(box.text())
        button = next(each for each in box.buttons() if each.text().replace("&", "") == answer)
        monkeypatch.setattr(box, "clickedButton", lambda: button, raising=False)
        return 0

    monkeypatch.setattr(QMessageBox, "exec", press)
    left = []
    monkeypatch.setattr(window.experiments, "shut_down", _noting(left, window.experiments.shut_down))
    window.close()
    assert "on box" in asked[0] and window.isVisible() is not closes
    assert left == ([answer == LEAVE] if closes else [])


def _noting(left, shut_down):
    def noted(*, leaves=False):
        left.append(leaves)
        shut_down(leaves=leaves)

    return noted


@pytest.fixture
def near_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that runs what is asked here, where the home is an empty folder; its path."""
    home = tmp_path / "there"
    home.mkdir()
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift 2\nHOME={home}\nexport HOME\neval "$*"\n'
    )
    ssh.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return home


def test_the_dialog_checks_a_machine_and_adds_it(qtbot, near_ssh):
    dialog = MachineDialog()
    qtbot.addWidget(dialog)
    dialog.show()
    assert not dialog.check_button.isEnabled() and not dialog.add_button.isEnabled()
    qtbot.keyClicks(dialog.host, "me@gpu-box")
    assert dialog.name.placeholderText() == "gpu-box"
    dialog.check_button.click()
    assert dialog.words() == "Checking me@gpu-box…"
    qtbot.waitUntil(lambda: bool(dialog.checks), timeout=WAIT_MS)
    assert dialog.words() == "1 problem"
    assert [check.name for check in dialog.checks if check.status == "problem"] == ["Program"]
    with qtbot.waitSignal(dialog.added) as added:
        dialog.add_button.click()
    assert added.args == ["gpu-box"]
    assert Machines().all() == (
        Machine(name="gpu-box", host="me@gpu-box", home=f"{near_ssh.resolve()}/.ammeter"),
    )


def test_a_cluster_is_asked_for_nothing_but_its_catalog_and_what_that_waits_for_is_told(
    qtbot, window, launchers, monkeypatch
):
    cluster = launchers["box"]
    cluster.site.has_nodes = True
    monkeypatch.setattr(cluster, "start", lambda job, keep=None: cluster.trained.append(job) or Waiting())
    window.machines.use("box")
    qtbot.waitUntil(
        lambda: "waiting for a free node" in window.top_bar.device.accessibleName(), timeout=WAIT_MS
    )
    assert [type(job) for job in cluster.trained] == [jobs.ReadCatalog]


def test_a_clusters_devices_are_read_once_and_again_when_asked(qtbot, window, launchers):
    Machines().put(new_machine("box", "me@box", slurm={}))
    launchers["box"].site.has_nodes = True
    keep_catalog(CATALOG.model_copy(update={"machine": "box"}))
    switch(qtbot, window, "box")
    assert window.experiments.catalog.devices == CATALOG.devices, "those that were kept"
    (again,) = (each for each in window.machines.list_menu().actions() if "Refresh" in each.text())
    again.trigger()
    qtbot.waitUntil(lambda: devices(window) == REMOTE_CATALOG.devices, timeout=WAIT_MS)
    assert kept_catalog("box")[0].devices == REMOTE_CATALOG.devices


def devices(window):
    catalog = window.experiments.catalog
    return None if catalog is None else catalog.devices


def test_the_dialog_adds_a_cluster_with_its_wishes(qtbot):
    # it deletes itself
    dialog = MachineDialog()
    dialog.show()
    assert not dialog.wishes["partition"].isVisible()
    qtbot.mouseClick(dialog.kind.button("slurm"), Qt.MouseButton.LeftButton)
    assert dialog.wishes["partition"].isVisible()
    wishes = {"partition": "gpu", "time_limit": "2:00:00", "options": "--gres=gpu:1 --wrap=x"}
    for name, text in wishes.items():
        dialog.wishes[name].setText(text)
    dialog.add_button.click()
    assert "Ammeter sets it itself" in dialog.words() and Machines().all() == ()
    dialog.wishes["options"].setText("--gres=gpu:1 --qos=normal")
    with qtbot.waitSignal(dialog.destroyed, timeout=WAIT_MS):
        dialog.add_button.click()
    wishes["options"] = ["--gres=gpu:1", "--qos=normal"]
    assert Machines().all() == (new_machine("cluster", "", slurm=wishes),)


def test_the_dialog_edits_a_machine(qtbot):
    wishes = {"partition": "gpu", "options": ["--qos=normal"]}
    known = new_machine("box", "me@old", slurm=wishes)
    Machines().put(known)
    dialog = MachineDialog(None, known)
    dialog.show()
    assert not dialog.name.isEnabled() and dialog.wishes["options"].text() == "--qos=normal"
    dialog.host.setText("me@new")
    dialog.wishes["partition"].setText("long")
    with qtbot.waitSignal(dialog.destroyed, timeout=WAIT_MS):
        dialog.add_button.click()
    assert Machines().all() == (new_machine("box", "me@new", slurm={**wishes, "partition": "long"}),)


@pytest.mark.parametrize(
    ("host", "name", "folder", "sentence"),
    [
        ("-oProxyCommand=x", "a", ".ammeter", "is not a valid host"),
        ("box", "BOX", ".ammeter", "A machine named BOX already exists"),
    ],
)
def test_the_dialog_says_what_is_wrong_with_its_fields(qtbot, host, name, folder, sentence):
    Machines().put(new_machine("box", "box"))
    dialog = MachineDialog()
    qtbot.addWidget(dialog)
    for field, text in ((dialog.host, host), (dialog.name, name), (dialog.folder, folder)):
        field.setText(text)
    dialog.add_button.click()
    assert sentence in dialog.words() and len(Machines().all()) == 1
    dialog.check_button.click()
    assert sentence in dialog.words() and dialog.checks == ()


@pytest.mark.slow
def test_the_engine_there_is_looked_at_planned_and_set_up_by_the_same_page(qtbot, near_ssh, tmp_path):
    plan = {"wanted": {}, "backend": "cpu", "torch": "2.15.0", "packages": [], "folder": "/e"}
    plan |= {"download_bytes": 3, "is_exact": True, "unpacked_bytes": 9, "kept_bytes": 4, "free_bytes": 9}
    put_python(near_ssh, json.dumps({"plan": plan}))
    Machines().put(new_machine("box", "me@box"))
    setup = EngineSetup(partial(remote_installer, "box"))
    with qtbot.waitSignal(setup.found, timeout=WAIT_MS) as found:
        setup.look()
    assert found.args[0].hardware.machine == "x86_64"
    with qtbot.waitSignal(setup.planned, timeout=WAIT_MS) as planned:
        setup.plan(InstallRequest())
    assert planned.args[0].needed_bytes == 5
    place = put_python_again(near_ssh)
    with qtbot.waitSignal(setup.ended, timeout=WAIT_MS) as ended:
        setup.start(InstallRequest())
    assert ended.args[0].torch == "2.15.0" and Machines().find("box").home == str(place)
    setup.shut_down()


def put_python_again(home: Path) -> Path:
    """Now the program there says that it has installed."""
    shutil.rmtree(home / ".ammeter")
    put_python(home, json.dumps({"installation": INSTALLATION.model_dump()}))
    return home.resolve() / ".ammeter"


@pytest.mark.slow
def test_a_run_that_a_closed_window_left_is_read_on_by_the_next(qtbot, tmp_path, saved, near):
    near.talk("training_worker.py")
    near.train_to(100)
    near.make_known()
    settings = Settings(tmp_path / "window.json", {"workspace": "experiment"})

    def opened() -> MainWindow:
        window = MainWindow(saved, Answering(""), settings)
        window.resize(1_440, 900)
        window.show()
        return window

    first = opened()
    run = saved.add(experiment_from(SETTINGS | {"steps": 300}), machine="near").id
    first.experiments.runs.reload()
    first.experiments.works.submit(saved.run(run).work)
    qtbot.waitUntil(
        lambda: first.experiments.live is not None and first.experiments.live.step > 50, timeout=WAIT_MS
    )
    first._leaves = True
    first.close_without_asking()
    place = saved.remote_place(run)
    assert place is not None and place.events_at > 0 and not saved.run(run).status.is_over
    near.train_to(300)
    second = opened()
    qtbot.waitUntil(lambda: saved.run(run).status.is_over, timeout=2 * WAIT_MS)
    assert saved.run(run).status is Status.FINISHED and saved.remote_place(run) is None
    assert saved.samples(run)["step"].tolist() == list(range(1, 301))
    second.close_without_asking()
