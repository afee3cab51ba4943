"""The table of figures as LaTeX with booktabs; settings and machine are in comments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.experiment.text import printable
from engine.export.content import Content
from engine.export.report.report import Report, report_of
from engine.export.report.tables import FigureText, SettingLine

_LAST_KNOWN = 0x17F
"""Beyond Latin Extended-A, pdfTeX stops at letters that nobody defined."""


def write_latex(content: Content, path: Path) -> None:
    path.write_text(latex(content), encoding="utf-8")


def latex(content: Content) -> str:
    r"""A `table` that needs `\usepackage{booktabs}`; nothing in it can run as a command."""
    return "\n".join(_lines(report_of(content))) + "\n"


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


def _lines(report: Report) -> Iterator[str]:
    yield f"% {_comment(report.made)}; needs \\usepackage{{booktabs}}"
    shared = [line for line in (*report.environment, *report.shared) if line.is_shared]
    for line in (*report.differing, *shared):
        yield f"% {_comment(_setting(line))}"
    yield r"\begin{table}"
    yield r"  \centering"
    yield f"  \\caption{{{escaped(_caption(report))}}}"
    yield f"  \\begin{{tabular}}{{l{'r' * len(report.sides)}}}"
    yield r"    \toprule"
    yield f"    {_row(['', *(side.title for side in report.sides)])}"
    yield r"    \midrule"
    for figure in report.figures:
        title = f"{figure.title}, {figure.unit}" if figure.unit else figure.title
        yield f"    {_row([title, *map(_figure, figure.cells)])}"
    yield r"    \bottomrule"
    yield r"  \end{tabular}"
    yield r"\end{table}"


def _caption(report: Report) -> str:
    devices = [line for line in report.environment if line.key in ("device_name", "torch")]
    where = ", ".join(
        f"{'PyTorch ' if line.key == 'torch' else ''}{' / '.join(dict.fromkeys(line.values))}"
        for line in devices
    )
    return f"{report.subject}{f' ({where})' if where else ''}. {report.answers[0].text}"


def _setting(line: SettingLine) -> str:
    values = line.values[:1] if line.is_shared else line.values
    return f"{line.title}: {', '.join(values)}"


def _comment(text: str) -> str:
    return printable(" ".join(text.split()))


def _figure(cell: FigureText) -> str:
    beside = ", ".join(part for part in (cell.beside, cell.interval) if part)
    return f"{cell.value} ({beside})" if beside else cell.value


def _row(cells: list[str]) -> str:
    return f"{' & '.join(map(escaped, cells))} \\\\"
