"""The command-line program, and its exit status, also after Ctrl+C or a signal."""

from __future__ import annotations

import functools
import inspect
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, Any, Self

import typer

from engine import __version__
from engine.cli import engine as engine_verbs
from engine.cli import machine, output, questions, saved, script, sweep, train
from engine.cli.session import DONE, FAILED, INTERRUPTED, InterruptError
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.value import printable, shortened

REFUSED = 2  # the exit status of a wrong request; ended by SIGTERM it is 143, by SIGHUP 129

_COMMANDS: dict[str, Callable[..., int]] = {
    "run": train.run,
    "compare": train.compare,
    "script": script.script,
    "limit": questions.limit,
    "numerics": questions.numerics,
    "profile": questions.profile,
    "sweep": sweep.sweep,
    "tune": questions.tune,
    "check": machine.check,
    "resume": train.resume,
    "results": saved.results,
    "show": saved.show,
    "export": saved.export,
    "import": saved.import_,
    "delete": saved.delete,
    "presets": machine.presets,
    "settings": machine.settings,
    "catalog": machine.catalog,
    "doctor": machine.doctor,
    "template": machine.template,
}
VERBS = (*_COMMANDS, "engine", "machines")

# what typer's parser raises for a wrong command line; typer exports only this subclass of it
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Without a command, print the help and return 2."""
    with _Ends() as ends:
        status = _run(list(sys.argv[1:] if argv is None else argv))
    return ends.status if status == INTERRUPTED else status


class _Ends:
    """While entered, SIGTERM and SIGHUP act as Ctrl+C, with an exit `status` of their own."""

    def __init__(self) -> None:
        self.status = INTERRUPTED
        self._heard: list[signal.Signals] = []
        self._on_terminal: list[int] = []

    def __enter__(self) -> Self:
        # Python allows handlers in the main thread only
        if threading.current_thread() is threading.main_thread():
            signals = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
            # one that is ignored stays so: nohup means that a program continues without its terminal
            self._heard = [each for each in signals if each and signal.getsignal(each) is signal.SIG_DFL]
            self._on_terminal = [number for number in (1, 2) if os.isatty(number)]
        for number in self._heard:
            signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._heard:
            signal.signal(number, signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.status = _BY_SIGNAL + number
        if number != signal.SIGTERM:
            # what is written to a closed terminal fails
            for descriptor in self._on_terminal:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        (on_ctrl_c if callable(on_ctrl_c) else signal.default_int_handler)(number, frame)


_BY_SIGNAL = 128  # by custom the exit status after a signal is this plus its number


def _run(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments
    _write_what_can_be_written()
    try:
        status = parser().main(arguments or ["--help"], prog_name="ammeter", standalone_mode=False)
        return REFUSED if not arguments else int(status or DONE)
    except _USAGE_ERROR as error:
        output.error(_usage_problem(error), as_json)
        return REFUSED
    except ProblemError as error:
        output.error(error.problem, as_json)
        return REFUSED if error.problem.kind is Kind.REQUEST else FAILED
    except BrokenPipeError:
        # the reader of stdout, such as `head`, has closed it; the flush at exit must not fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (InterruptError, KeyboardInterrupt) as error:
        problem = Problem(kind=Kind.REQUEST, message="Interrupted.", remedy="Run the command again.")
        output.error(getattr(error, "problem", None) or problem, as_json)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: a script still gets its one JSON object
        # the traceback may quote control sequences of a terminal
        sys.stderr.write(printable(traceback.format_exc()))
        message = f"Internal error: {error or type(error).__name__}."
        remedy = "Please report it with the lines above."
        output.error(Problem(kind=Kind.INTERNAL, message=message, remedy=remedy), as_json)
        return FAILED


def _write_what_can_be_written() -> None:
    """Write a character that the streams cannot encode as "?": Windows' code pages lack minus and ×."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


@functools.cache
def parser() -> Any:
    """Return the parser of all commands."""
    app = typer.Typer(
        name="ammeter",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_program)
    actions = typer.Typer(name="engine", help="Install, show, check or remove PyTorch.")
    machines = typer.Typer(name="machines", help="List, add, check or forget remote machines.")
    for group, commands in (
        (app, _COMMANDS),
        (actions, engine_verbs.ACTIONS),
        (machines, machine.MACHINE_ACTIONS),
    ):
        for name, function in commands.items():
            # a line for each paragraph, which the terminal's width breaks
            paragraphs = (inspect.getdoc(function) or "").split("\n\n")
            text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
            group.command(name, help=text)(_interruptible(function))
    app.add_typer(actions)
    app.add_typer(machines)
    return typer.main.get_command(app)


def _interruptible(verb: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(verb)
    def interruptible(*arguments: Any, **options: Any) -> int:
        try:
            return verb(*arguments, **options)
        except KeyboardInterrupt:
            # typer would turn it into an exit without the one JSON object
            raise InterruptError from None

    return interruptible


def _print_version(is_asked: bool) -> None:
    if is_asked:
        output.line(f"ammeter {__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Measure what mixed-precision training gains on this machine. Without a command, open the window.

    `ammeter FILE.ammeter` opens the window and imports the archive.
    """


def _usage_problem(error: Any) -> Problem:
    context = getattr(error, "ctx", None)
    remedy = f"See `{context.command_path} --help`." if context is not None else "See `ammeter --help`."
    parameter = getattr(error, "param", None)
    option = getattr(error, "option_name", None) or getattr(parameter, "name", None)
    return request_problem(shortened(error.format_message(), 300), remedy, key=option)
