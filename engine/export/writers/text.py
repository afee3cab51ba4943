"""A document's text and tables as GitHub Markdown, and its tables as LaTeX with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.value import printable
from engine.export.document import Cell, Document, Section


def write_markdown(document: Document, path: Path) -> None:
    """Write the sentences and tables as Markdown, to paste into an issue or a README."""
    path.write_text(markdown(document), encoding="utf-8")


def markdown(document: Document) -> str:
    """Return the sentences, tables, settings and machine as Markdown."""
    return "\n".join(_markdown(document)) + "\n"


_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&])")
_AT_START = re.compile(
    r"^(\d{0,9})([-+.)](?= |$)|[-=](?=[-= ]*$))"
)  # of a list, a line, or a heading's underline


def escape_markdown(text: str) -> str:
    """Return text escaped so that Markdown shows it literally, on one line."""
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", _on_a_line(text)))


def _on_a_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _markdown(document: Document) -> Iterator[str]:
    yield f"## {escape_markdown(document.title)}\n"
    answers = (answer.text for answer in document.answers)
    for text in (document.subject, *answers, document.nothing):
        if text:
            yield f"{escape_markdown(text)}\n"
    if document.warnings:
        yield "Caution:\n"
        yield from (f"- {escape_markdown(text)}" for text in document.warnings)
        yield ""
    for section in document.sections:
        if section.part == "appendix" or not (section.sentences or section.rows or section.pairs):
            continue
        yield f"### {escape_markdown(section.title)}\n"
        for text in section.sentences:
            yield _fenced(text) if section.is_code else f"{escape_markdown(text)}\n"
        yield from table_lines(section.headings, section.rows, section.right)
        yield from table_lines(("Name", "Value"), section.pairs)
        yield from (f"{escape_markdown(text)}\n" for text in section.notes)
    yield f"{escape_markdown(document.made)}."


def _fenced(code: str) -> str:
    # a fence ends at one that is as long, and at the end of no line of the code
    longest = max((len(ticks) for ticks in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(code)}\n{fence}\n"


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a Markdown table, with the columns in `right` right-aligned. Yields nothing without rows."""

    def row(cells: Sequence[Cell]) -> str:
        return f"| {' | '.join(escape_markdown(_value_with_relation(cell)) for cell in cells)} |"

    if rows:
        yield row(headings)
        yield f"| {' | '.join('---:' if heading in right else '---' for heading in headings)} |"
        yield from map(row, rows)
        yield ""


def _value_with_relation(cell: Cell) -> str:
    if isinstance(cell, str) or not cell.relation:
        return str(cell)
    return f"{cell.value}, {cell.relation}{f' ({cell.interval})' if cell.interval else ''}"


def write_latex(document: Document, path: Path) -> None:
    path.write_text(latex(document), encoding="utf-8")


def latex(document: Document) -> str:
    r"""Return a LaTeX `table` for each section with rows. They need `\usepackage{booktabs}`.

    All text is escaped, so nothing in it can run. Settings and machine are in comments.
    """
    return "\n".join(_latex(document)) + "\n"


_LAST_KNOWN = 0x17F  # beyond Latin Extended-A, pdfTeX stops at letters that nobody defined
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
    "→": r"$\to$",
    **{raised: f"$^{{{plain}}}$" for raised, plain in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)},
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
}


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets literally, on one line. Letters that it may lack become question marks."""
    letters = (
        _LETTERS.get(letter, letter if ord(letter) <= _LAST_KNOWN else "?") for letter in _on_a_line(text)
    )
    # two hyphens would become a dash, and digits of one exponent belong together
    return "".join(letters).replace("--", "-{}-").replace("}$$^{", "")


def _latex(document: Document) -> Iterator[str]:
    yield f"% {_on_a_line(document.made)}; needs \\usepackage{{booktabs}}"
    for section in document.sections:
        if section.part == "setup":
            for name, *cells in (*section.rows, *section.pairs):
                texts = ", ".join(map(cell_words, cells))
                yield f"% {_on_a_line(cell_words(name))}: {_on_a_line(texts)}"
    for section in document.sections:
        if section.part == "answer" and section.rows:
            yield from _latex_table(section, _caption(document, section))


def _caption(document: Document, section: Section) -> str:
    if document.answers and document.answers[0].side is not None:
        where = f" ({document.where})" if document.where else ""
        return f"{document.subject}{where}. {document.answers[0].text}"
    return " ".join([f"{document.title}. {section.title}.", *section.sentences])


def _latex_table(section: Section, caption: str) -> Iterator[str]:
    columns = "".join("r" if heading in section.right else "l" for heading in section.headings)
    headings, *rows = (
        f"    {' & '.join(escape_latex(cell_words(cell)) for cell in cells)} \\\\"
        for cells in (section.headings, *section.rows)
    )
    yield from (r"\begin{table}", r"  \centering", f"  \\caption{{{escape_latex(caption)}}}")
    yield from (f"  \\begin{{tabular}}{{{columns}}}", r"    \toprule", headings, r"    \midrule", *rows)
    yield from (r"    \bottomrule", r"  \end{tabular}", r"\end{table}")


def cell_words(cell: Cell) -> str:
    """Return the text of a cell, a metric's with its relation: "1,600 (2.00×, 1.97 to 2.02)"."""
    if isinstance(cell, str) or not cell.relation:
        return str(cell)
    return f"{cell.value} ({', '.join(filter(None, (cell.relation, cell.interval)))})"
