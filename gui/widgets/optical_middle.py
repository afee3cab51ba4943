"""Where a page's one thing stands when there is room around it."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget


def put_in_the_middle(page: QWidget, inner: QWidget) -> None:
    """Lays `page` out with `inner` alone in it, in the middle as the eye sees it."""
    across = QHBoxLayout()
    across.addStretch(1)
    across.addWidget(inner)
    across.addStretch(1)
    down = QVBoxLayout(page)
    down.addStretch(2)
    down.addLayout(across)
    # a little above the middle is where the eye takes the middle to be
    down.addStretch(3)
