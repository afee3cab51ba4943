"""PyTorch in the window: the installation page, and the texts of form, top bar and messages without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication

from engine.experiment.problem import Kind, Problem
from engine.installation.installed import Engine, Installation, State, engine_here
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.setup.panel import SetupPanel
from gui.train.panel import LivePanel
from gui.widgets.notice import Notice, NoticeMessage
from gui.widgets.welcome import Welcome
from gui.window.top_bar import TopBar

_IN_PROGRESS = "PyTorch is being installed."
_NOT_FINISHED = "The installation of PyTorch was interrupted."
_KEPT = "Complete packages are kept and used."
_OFFERS = {State.ABSENT: "Install PyTorch", State.BROKEN: "Repair PyTorch"}
_FACTS = {State.ABSENT: "PyTorch is not installed", State.BROKEN: "PyTorch needs a repair"}


class EngineController(QObject):
    """Checks whether PyTorch is installed, and shows the installation page instead of runs if it is not.

    Installation and page are made on demand, with all that they import: most starts need neither.
    `page_shown` is emitted once the page has taken the place of the runs.
    """

    page_shown = Signal()

    def __init__(
        self,
        experiments: Experiments,
        setup: SetupPanel,
        live: LivePanel,
        top_bar: TopBar,
        welcome: Welcome,
        notice: Notice,
        parent: QObject,
        make_installer: Callable[[], Any] | None = None,
    ) -> None:
        """`make_installer` replaces the installer of PyTorch, an `Installs`, for tests."""
        super().__init__(parent)
        self._experiments, self._form, self._live = experiments, setup, live
        self._top_bar, self._device, self._welcome, self._notice = top_bar, top_bar.device, welcome, notice
        self._trains_next = False
        self._message: NoticeMessage | None = None
        self._background = Background(self)
        self._make_installer, self._machine = make_installer, ""
        self._experiments.machine_changed.connect(self._on_machine_changed)
        self._experiments.engine_changed.connect(self._on_engine_changed)
        self._experiments.problem.connect(self._on_problem)
        self._experiments.began.connect(lambda _run_id: self._leave_page())
        self._form.foot.engine_button.clicked.connect(self._on_engine_button)
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.applicationStateChanged.connect(self._on_application_state)
        if not self.engine.is_usable:
            self._device.set_device("PyTorch is not installed", ())
            self._live.set_placeholder(self.page)
        self._update_form()

    @property
    def engine(self) -> Engine:
        return self._experiments.engine

    @cached_property
    def installing(self) -> Any:
        """Return the installation, an `EngineSetup`."""
        from gui.installation.setup import EngineSetup

        # neither disturbs the other: what is measured, and what uses processor, disk and card as well
        installing = EngineSetup(self._installer(), self, lambda: self._experiments.reserve_machine(True))
        self._experiments.idle.connect(installing.begin_if_waiting)
        installing.found.connect(self._show_hardware)
        installing.began.connect(lambda _wanted: self._on_install_began())
        installing.ended.connect(self._on_install_ended)
        installing.removed.connect(lambda _freed_bytes: self._experiments.start_engine())
        installing.problem.connect(lambda _problem: self._on_install_ended(None))
        return installing

    def _installer(self) -> Callable[[], Any]:
        from gui.installation.setup import local_installer, remote_installer

        if self._machine:
            return partial(remote_installer, self._machine)
        return self._make_installer or local_installer

    def _on_machine_changed(self) -> None:
        """Switch to the PyTorch and the page of another machine. A current installation is stopped."""
        if self._machine == self._experiments.machine:
            return
        self._machine = self._experiments.machine
        self._live.set_placeholder(None)
        self._notice.withdraw(self._message)
        if "page" in vars(self):
            self.page.removeEventFilter(self)
            vars(self).pop("page").deleteLater()
        if "installing" in vars(self):
            installing = vars(self).pop("installing")
            self._experiments.idle.disconnect(installing.begin_if_waiting)
            installing.shut_down()
            installing.deleteLater()
            self._experiments.reserve_machine(False)

    def _on_engine_button(self) -> None:
        """Handle the form's button: reconnect to the machine, or show the installation page."""
        if self._machine and self.engine.is_usable:
            self._experiments.reconnect()
        else:
            self.show_page()

    def show_page_of_machine(self) -> None:
        """Show the installation page of the current machine, in any state."""
        from gui.installation.words import Purpose

        self.show_page(Purpose.UPDATE if self.engine.is_usable else None)

    @cached_property
    def page(self) -> Any:
        """Return the page, a `SetupPage`."""
        from gui.installation.page import SetupPage

        page = SetupPage(self.installing, self.engine, self._live)
        page.train_wanted.connect(self._train)
        page.left.connect(self._leave_page)
        page.progress_changed.connect(lambda progress: self._progress_chip.show_progress(progress))
        page.installEventFilter(self)
        return page

    @cached_property
    def _progress_chip(self) -> Any:
        from gui.installation.progress import SetupChip

        chip = SetupChip()
        chip.clicked.connect(lambda: self.show_page())
        self._top_bar.add_chip(chip)
        return chip

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self._notice.withdraw(self._message)
            self._update_form()
        return super().eventFilter(watched, event)

    def start_checks(self) -> None:
        """Run the slow checks of the installation after the window's first paint."""
        if self.engine.state is State.READY:
            self._check_files()
        elif self.engine.state is not State.OWN and not self.page.isVisible():
            self.installing.look()
            if self.engine.state is State.BROKEN:
                self._offer_repair(self.engine.problem)

    def show_page(self, purpose: str | None = None) -> None:
        """Show the page, with the offer of that `Purpose` or as it is."""
        if purpose is not None:
            self.page.offer(purpose)
        self._live.set_placeholder(self.page)
        self.page_shown.emit()
        self.page.setFocus(Qt.FocusReason.OtherFocusReason)

    def repair(self) -> None:
        """Install the present build again, on the page."""
        from gui.installation.words import first_choice

        self.show_page()
        self.installing.start(first_choice(self.engine))

    def use_installed(self) -> None:
        """Use a PyTorch that was installed elsewhere, such as by a command line."""
        if self._machine or self.engine.is_usable:
            return
        if not self.installing.is_busy and engine_here().is_usable:
            self._live.set_placeholder(None)
            self._experiments.start_engine()

    def show_dialog(self) -> None:
        """Open Help > PyTorch. For a remote machine, show its installation page."""
        if self._machine:
            self.show_page_of_machine()
            return
        from gui.installation.dialog import show_engine_dialog

        show_engine_dialog(self._live.window(), self.installing, self.engine, self.show_page)

    def stop(self) -> None:
        """Stop the installation as the window closes. Complete packages are kept."""
        self._background.stop()
        if "installing" in vars(self):
            self.installing.shut_down()

    def state(self) -> Mapping[str, Any]:
        return self.page.state() if "page" in vars(self) else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Offer to resume an interrupted installation. Raises KeyError or TypeError."""
        if not state:
            return
        self.page.restore(state)
        if self.engine.is_usable and state["begun"]:
            self._notice.notify(_NOT_FINISHED, _KEPT, "Resume", self.show_page)

    def _on_install_began(self) -> None:
        self._notice.withdraw(self._message)
        self._live.set_placeholder(self.page)
        self._update_form()

    def _on_install_ended(self, installation: Installation | None) -> None:
        if installation is not None:
            self._experiments.start_engine()
        self._experiments.reserve_machine(self.installing.is_busy)
        self._update_form()

    def _on_engine_changed(self, engine: Engine) -> None:
        self._update_form()
        if not engine.is_usable:
            # on another machine something is sent to look at it: it is the user who asks for that
            if not self._machine:
                self._live.set_placeholder(self.page)
        elif self._experiments.catalog is None:
            self._device.show_unknown()
        if "page" in vars(self):
            self.page.show_engine(engine)

    def _leave_page(self) -> None:
        if self.engine.is_usable and "page" in vars(self) and not self.installing.is_busy:
            self._live.set_placeholder(None)

    def _on_application_state(self, state: Qt.ApplicationState) -> None:
        if state is Qt.ApplicationState.ApplicationActive:
            self.use_installed()

    def _update_form(self) -> None:
        problem = self.engine.problem
        self._welcome.show_offers(problem is None)
        if problem is None:
            self._form.set_engine(None)
            return
        is_busy = self.installing.is_busy
        action = "Show the installation" if is_busy else _OFFERS[self.engine.state]
        # the page itself says the rest
        is_in_sight = self.page.isVisible()
        self._form.set_engine(_IN_PROGRESS if is_busy else problem.message, "" if is_in_sight else action)

    def _show_hardware(self, found: Any) -> None:
        if not self.engine.is_usable:
            from gui.installation.words import gpu_title

            title, fact = gpu_title(found.hardware), _FACTS[self.engine.state]
            self._device.set_device(title, (fact,), f"{title}: {fact}")

    def _check_files(self, *, is_doubtful: bool = False) -> None:
        from gui.installation.setup import look_after

        look = partial(look_after, self.engine, is_doubtful=is_doubtful)
        self._background.do(look, self._offer_repair, lambda _problem: None)

    def _on_problem(self, problem: Problem) -> None:
        # a file that torch lacks is found out by a worker that ends as it starts
        if problem.kind is Kind.WORKER_DIED and self.engine.state is State.READY:
            self._check_files(is_doubtful=True)

    def _offer_repair(self, found: Problem | None) -> None:
        if found is not None:
            safe = "Your runs are not affected."
            self._message = self._notice.stand(found.message, safe, "Repair", self.repair)

    def _train(self) -> None:
        self._live.set_placeholder(None)
        self._trains_next = True
        self.train_if_asked()

    def train_if_asked(self) -> None:
        """Start the training requested on the page, once the catalog is known."""
        if self._trains_next and self._experiments.catalog is not None:
            self._trains_next = False
            self._form.run_action.trigger()
