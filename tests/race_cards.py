"""What must hold for every card of a race: all its text is on it, and none runs into another."""

from __future__ import annotations

from itertools import combinations

from engine.drawing.shapes import CAPITAL, Words
from engine.race.card import Card
from engine.race.scene import Instant


def words_of(card: Card, instant: Instant) -> list[Words]:
    return [shape for shape in card.drawing(instant).shapes if isinstance(shape, Words)]


def texts_of(card: Card, instant: Instant) -> list[str]:
    return [words.text.replace("\N{NO-BREAK SPACE}", " ") for words in words_of(card, instant)]


def assert_clear(card: Card, instant: Instant) -> None:
    """Asserts that text is within the card, and keeps clear of other text and of the blocks."""
    words = words_of(card, instant)
    edges = {id(one): _edges(card, one) for one in words}
    assert all(one.y - CAPITAL * one.size + 1 > 0 and one.y <= card.height for one in words)
    # a large figure whose outline begins at the edge has the blank before it beyond the edge
    assert all(edges[id(one)][0] >= -0.07 * one.size for one in words)
    assert all(edges[id(one)][1] <= card.sizes.width + 1 for one in words)
    for one, other in combinations([one for one in words if len(one.text) > 1], 2):
        left, right = sorted((edges[id(one)], edges[id(other)]))
        is_one_line = abs(one.y - other.y) < 0.5 * min(one.size, other.size)
        assert not is_one_line or left[1] <= right[0] + 1, (one.text, other.text)
    for blocks in card.lanes:
        beside = [one for one in words if edges[id(one)][0] < blocks.x + blocks.grid.width]
        hidden = [
            one.text for one in beside if blocks.y < one.y and one.y - CAPITAL * one.size < blocks.bottom
        ]
        assert hidden == []


def _edges(card: Card, words: Words) -> tuple[float, float]:
    width = card.sizes.width_of(words.text, words.size, words.weight)
    left = words.x - {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    return left, left + width
