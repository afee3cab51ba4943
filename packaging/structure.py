"""Draw the packages of the code and their imports in ARCHITECTURE.md, as Mermaid charts.

    uv run python packaging/structure.py [--check]

An arrow points from a package to one that it imports; arrows that follow from others are left out. With
`--check` nothing is written, and the exit status says whether the pictures are up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"
ROOTS = ("gui", "engine")

Imports = Mapping[str, frozenset[str]]


def package_imports(root: str) -> Imports:
    """Return the packages directly below a root with their imports, without the root's own modules."""
    graph = grimp.build_graph(root, cache_dir=None)
    packages = {child for child in graph.find_children(root) if graph.find_children(child)}
    return {
        package: frozenset(
            other
            for other in packages - {package}
            if graph.direct_import_exists(importer=package, imported=other, as_packages=True)
        )
        for package in packages
    }


def reduced(imports: Imports) -> Imports:
    """Return the imports without those that follow from others. The layers' contracts exclude cycles."""

    def below(package: str) -> frozenset[str]:
        return imports[package].union(*(below(other) for other in imports[package]))

    return {
        package: frozenset(
            other for other in direct if not any(other in below(between) for between in direct - {other})
        )
        for package, direct in imports.items()
    }


def drawing(root: str) -> str:
    """Return a fenced Mermaid flow chart of a root's packages."""
    imports = reduced(package_imports(root))
    names = {package: package.removeprefix(f"{root}.") for package in imports}
    arrows = [f"    {names[a]} --> {names[b]}" for a in sorted(imports) for b in sorted(imports[a])]
    # a package that nothing imports and that imports nothing is a box of its own
    linked = {package for a in imports for package in (a, *imports[a]) if imports[a]}
    alone = [f"    {names[package]}" for package in sorted(imports) if package not in linked]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, *alone, "```"])


def with_drawings(text: str) -> str:
    """Return the page with the pictures between its markers drawn again."""
    for root in ROOTS:
        marked = re.compile(rf"(<!-- structure of {root} -->\n).*?(<!-- end -->)", re.DOTALL)
        assert marked.search(text), f"ARCHITECTURE.md has no place for the structure of {root}"
        picture = drawing(root)
        text = marked.sub(lambda place, picture=picture: f"{place[1]}{picture}\n{place[2]}", text)  # type: ignore[misc]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    is_check = parser.parse_args().check
    known = PAGE.read_text(encoding="utf-8")
    drawn = with_drawings(known)
    if not is_check:
        PAGE.write_text(drawn, encoding="utf-8")
    return int(is_check and drawn != known)


if __name__ == "__main__":
    sys.exit(main())
