"""A document's tables as LaTeX with booktabs; settings and machine are in comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.value import printable
from engine.export.document import Cell, Document, Section

_LAST_KNOWN = 0x17F
"""Beyond Latin Extended-A, pdfTeX stops at letters that nobody defined."""


def write_latex(document: Document, path: Path) -> None:
    """Writes the tables."""
    path.write_text(latex(document), encoding="utf-8")


def latex(document: Document) -> str:
    r"""A `table` for each section that has one; they need `\usepackage{booktabs}`, and nothing can run."""
    return "\n".join(_lines(document)) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX sets literally, on one line; letters that it may lack become question marks."""
    letters = "".join(_letter(letter) for letter in printable(" ".join(text.split())))
    # two hyphens would become a dash
    return letters.replace("--", "-{}-")


def _letter(letter: str) -> str:
    return _LETTERS.get(letter, letter if ord(letter) <= _LAST_KNOWN else "?")


_LETTERS = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",
    "]": "{]}",
    "×": r"$\times$",
    "−": "$-$",
    "–": r"\textendash{}",
    "∞": r"$\infty$",
    "·": r"\textperiodcentered{}",
    "\N{NO-BREAK SPACE}": "~",
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
}


def _lines(document: Document) -> Iterator[str]:
    yield f"% {_comment(document.made)}; needs \\usepackage{{booktabs}}"
    for section in document.sections:
        if section.part == "setup":
            for name, *cells in (*section.rows, *section.pairs):
                yield f"% {_comment(_text(name))}: {_comment(', '.join(map(_text, cells)))}"
    for section in document.sections:
        if section.part == "answer" and section.rows:
            yield from _table(section, _caption(document, section))


def _caption(document: Document, section: Section) -> str:
    if document.answers:
        where = f" ({document.where})" if document.where else ""
        return f"{document.subject}{where}. {document.answers[0].text}"
    return " ".join([f"{document.title}. {section.title}.", *section.sentences])


def _table(section: Section, caption: str) -> Iterator[str]:
    columns = "".join("r" if heading in section.right else "l" for heading in section.headings)
    yield r"\begin{table}"
    yield r"  \centering"
    yield f"  \\caption{{{escaped(caption)}}}"
    yield f"  \\begin{{tabular}}{{{columns}}}"
    yield r"    \toprule"
    yield f"    {_row(section.headings)}"
    yield r"    \midrule"
    yield from (f"    {_row(row)}" for row in section.rows)
    yield r"    \bottomrule"
    yield r"  \end{tabular}"
    yield r"\end{table}"


def _comment(text: str) -> str:
    return printable(" ".join(text.split()))


def _row(cells: Sequence[Cell]) -> str:
    return f"{' & '.join(escaped(_text(cell)) for cell in cells)} \\\\"


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    beside = ", ".join(part for part in (cell.beside, cell.interval) if part)
    return f"{cell.value} ({beside})" if beside else cell.value
