"""The guide's pages: what the number formats are, when mixed precision helps, and what each figure means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

FIRST_PAGE = "README"


@dataclass(frozen=True)
class GuidePage:
    """One page; `name` is what links and callers know it by, `text` is markdown, its first line the title."""

    name: str
    section: str
    title: str
    text: str

    def has(self, words: str) -> bool:
        """Whether each of the words stands in the page, large or small, whole or as a beginning."""
        text = self.text.casefold()
        return all(word in text for word in words.casefold().split())


_ORDER = (
    ("", (FIRST_PAGE,)),
    ("Number formats", ("fp32", "tf32", "fp16", "bf16")),
    ("Mixed precision", ("autocast", "loss-scaling", "when-it-helps")),
    (
        "What the figures mean",
        ("figures", "speed", "memory", "accuracy", "data-wait", "clean-comparison", "recipe"),
    ),
)


@cache
def guide_pages() -> tuple[GuidePage, ...]:
    """The pages that come with the program, in the order of the list."""
    return tuple(_read(name, section) for section, names in _ORDER for name in names)


def _read(name: str, section: str) -> GuidePage:
    text = (resources.files("resources") / "guide" / f"{name}.md").read_text(encoding="utf-8")
    return GuidePage(name, section, text.partition("\n")[0].lstrip("# "), text)


def picture_bytes(name: str) -> bytes | None:
    """The SVG of that file name, in the light palette; None where there is none."""
    entry = resources.files("resources") / "guide" / "pictures" / name
    return entry.read_bytes() if name.endswith(".svg") and "/" not in name and entry.is_file() else None


def matching(pages: Sequence[GuidePage], words: str) -> tuple[GuidePage, ...]:
    """The pages that have all the words."""
    return tuple(page for page in pages if page.has(words))


def best_of(found: Sequence[GuidePage], words: str, current: str | None) -> str | None:
    """The name of the page to show of those that a search found; None where it found none.

    It is the first with the words in its title, or the one that is read, or the first.
    """
    titled = (
        page.name for page in found if words.strip() and words.strip().casefold() in page.title.casefold()
    )
    names = [page.name for page in found]
    return next(titled, current if current in names else next(iter(names), None))
