"""Jobs on an experiment whose results are no runs: a diagnosis, a timing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Event as Flag

from engine.experiment.checks import Catalog, DeviceEntry, resolve
from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Event
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher, Session, iterate


class Inspector:
    """Runs jobs in the thread that iterates; by default with the catalog of this machine."""

    def __init__(self, store: Store, launcher: Launcher, catalog: Catalog | None = None) -> None:
        self._store = store
        self._launcher = launcher
        self._catalog = catalog
        self._session: Session | None = None
        self._stop_asked = Flag()

    def stop(self) -> None:
        """Ends the work after the step in flight; what is known by then is kept. Any thread may ask."""
        self._stop_asked.set()
        session = self._session
        if session is not None:
            session.stop()

    def _prepared(self, experiments: Iterable[Experiment]) -> list[tuple[Experiment, DeviceEntry]]:
        """The experiments as resolved, with their devices; forgets an earlier stop.

        Raises ProblemError where one cannot be trained on this machine, or its code is not trusted.
        """
        self._stop_asked.clear()
        wanted = tuple(experiments)
        for experiment in wanted:
            self._launcher.trusted_code.check(experiment)
        catalog = self._known_catalog()
        prepared = []
        for experiment in wanted:
            resolved = resolve(experiment, catalog)
            device = catalog.device(resolved.device)
            assert device is not None  # the experiment is resolved
            prepared.append((resolved, device))
        return prepared

    def _known_catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Runner(self._store, self._launcher).catalog()
        return self._catalog

    def _events(self, job: jobs.Job) -> Iterator[Event]:
        """The events of a job. Raises ProblemError where no worker can be started."""
        session = self._session = self._launcher.start(job)
        try:
            for event in iterate(session):
                if event is not None:
                    yield event
                if self._stop_asked.is_set() and not session.is_over:
                    # stop() may have come before there was a session; asking twice does no harm
                    session.stop()
        finally:
            self._session = None
            session.close()
