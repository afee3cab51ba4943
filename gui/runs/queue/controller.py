"""Offers about the queue, made through the window's notice."""

from __future__ import annotations

from gui.runs.queue.words import left_words
from gui.session.queue import Queue
from gui.widgets.notice import Notice


def offer_left(queue: Queue, notice: Notice) -> None:
    """Asks what becomes of what an earlier window left in the queue, if there is anything."""
    left = queue.left()
    if not left:
        return

    def go_on() -> None:
        queue.take_up(left)
        queue.go_on()

    notice.tell(
        left_words(left),
        action="Go on",
        do=go_on,
        others=(
            ("Keep for later", lambda: queue.take_up(left, is_held=True)),
            ("Remove", lambda: queue.discard(left)),
        ),
    )
