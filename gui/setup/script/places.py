"""The folder, environment and programs of scripts, looked up in a thread, because a disk may be slow."""

from __future__ import annotations

from functools import partial

from engine.worker.script.places import Found, Place, look_up
from gui.session.reader import Lookups


class PlaceReader(Lookups[Place, Found]):
    """Looks up the places of scripts in a thread."""

    def find(self, place: Place) -> Found | None:
        """Return the earlier result, and look again. None before the first result, and without a folder."""
        return self.request(place, partial(look_up, place)) if place.folder else None
