"""The user's workload file, executed in this process, its definitions, and its errors.

Its errors are told apart from ours by their frames. `own_frames` returns those in files executed here. Errors
of a backward pass name the line of the forward pass that made the failing operation.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import random
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from engine.experiment.own.code import MODEL, MOST_CODE_BYTES, Code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Problem, ProblemError, request_error, request_problem
from engine.experiment.value import shortened
from engine.installation.missing import package_remedy
from engine.training.models.libraries import is_out_of_memory
from engine.training.models.outputs import describe_value, no_gradient_error
from engine.training.ranks import current_rank
from engine.words.numbers import counted

_LONGEST_REASON = 200
_executed: dict[str, Code] = {}  # the code of each file executed in this process, by its absolute path


class OwnFile:
    """A user's workload file, executed in this process, and the functions that it defines.

    Executes the text saved with the experiment, even if the file on disk has changed since. Changes the
    process's working directory to the file's folder, if it exists, so relative paths work. Raises the errors
    of the file.
    """

    def __init__(self, code: Code, class_name: str | None, seed: int) -> None:
        self.code, self.class_name = code, class_name
        self._model_name, self._seed = class_name or MODEL, seed
        folder = Path(code.folder)
        if _may_serve(code) and folder.is_dir():
            os.chdir(folder)
        _serve_modules(code)
        path = str(folder / code.file)
        _remember(path, code, code.text)
        self._module = ModuleType(_module_name(code))
        self._module.__file__ = path
        sys.modules[self._module.__name__] = self._module
        seed_everything(seed)
        guard_process(is_own_file)
        with _lenient_warnings():
            _watched(exec, compile(code.text, path, "exec", dont_inherit=True), self._module.__dict__)

    def has(self, name: str) -> bool:
        """Return True if the file defines a function of that name."""
        return callable(getattr(self._module, name, None))

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function of the file, or None. Raises ProblemError if it cannot be called."""
        function = getattr(self._module, name, None)
        return functools.partial(_call, self, name, function) if callable(function) else None

    def required(self, name: str) -> Callable[..., Any]:
        """Return a function that the file must define. Raises ProblemError."""
        function = self.function(name)
        if function is None:
            raise self.problem(f"has no function or class named {name}", f"Define {name} in it.")
        return function

    def build(self) -> nn.Module:
        """Return the model, with weights by the seed. Reseeds all global generators. Raises ProblemError."""
        make = self.required(self._model_name)
        seed_everything(self._seed)
        model, call = make(), f"{self._model_name}()"
        if isinstance(model, type) and issubclass(model, nn.Module):
            message = f"returned the class {model.__name__} from {call}"
            raise self.problem(message, "Return an instance of it.")
        if not isinstance(model, nn.Module):
            message = f"returned {describe_value(model)} from {call}, but it must be an nn.Module"
            raise self.problem(message, f"Return the model from {call}.")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise self.problem("has a model without trainable parameters", "Give it a layer with weights.")
        return model

    def problem(self, message: str, remedy: str, key: str = "model") -> ProblemError:
        """Return an error that names the file. `message` continues the sentence that starts with its name."""
        return request_error(f"{self.code.file} {message}.", remedy, key=key)


def seed_everything(seed: int) -> None:
    """Seed the global generators of torch, on all devices, of NumPy and of Python."""
    torch.manual_seed(seed)
    seed_host(seed)


def seed_host(seed: int) -> None:
    """Seed the host's global generators: torch's, NumPy's and Python's."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # the user's code may draw from the old generator
    random.seed(seed)


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of torch's global generators, on the host and on the device, by device type."""
    states = {"cpu": torch.get_rng_state()}
    match device.type:
        case "cuda" | "xpu":
            states[device.type] = torch.get_device_module(device).get_rng_state(device)
        case "mps":
            states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore states from `random_states`, of the host and, if it has the same type, of the device."""
    torch.set_rng_state(states["cpu"])
    match device.type:
        case "cuda" | "xpu" if device.type in states:
            torch.get_device_module(device).set_rng_state(states[device.type], device)
        case "mps" if "mps" in states:
            torch.mps.set_rng_state(states["mps"])


FORWARD_FRAMES = "forward_frames"
"""The attribute of an error of a backward pass: the user's frames of the forward pass, if they are known."""


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the error, or of its cause, in executed files. The innermost is last."""
    return _own_part(error)[1]


def _own_part(error: BaseException) -> tuple[BaseException, list[traceback.FrameSummary]]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        every = traceback.extract_tb(current.__traceback__)
        frames = [frame for frame in every if frame.filename in _executed]
        frames = getattr(current, FORWARD_FRAMES, None) or frames
        if isinstance(current, SyntaxError) and current.filename in _executed:
            frames.append(traceback.FrameSummary(current.filename, current.lineno or 1, "<module>"))
        if frames:
            return current, frames
        current = current.__cause__ or current.__context__
    return error, []


def own_problem(error: BaseException) -> Problem | None:
    """Return the problem of an error in the user's code, with its file and line. None for any other error."""
    frames = own_frames(error)
    if not frames:
        return None
    last, remedy, reason = frames[-1], "Fix the file and start again.", type(error).__name__
    if isinstance(error, SystemExit):
        reason += ", which ends the process"
        remedy = "Remove that call of sys.exit or os._exit. The file is imported, not run as a script."
    elif str(error).strip():
        remedy = package_remedy(error, shown_file(last.filename)) or remedy
        reason += f": {shortened(error_line(error), _LONGEST_REASON)}"
    return request_problem(f"{_place_words(last)}: {reason.rstrip('.')}.", remedy, key="model")


def located_problem(error: ProblemError) -> Problem:
    """Return the error's problem, with the line of the user's code that raised it, if any."""
    every = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(every) if frame.filename in _executed), None)
    if last is None:
        return error.problem
    return error.problem.model_copy(update={"message": f"{_place_words(last)}: {error.problem.message}"})


def _place_words(frame: traceback.FrameSummary) -> str:
    function = "" if frame.name.startswith("<") else f", in {frame.name}"
    return f"{shown_file(frame.filename)}, line {frame.lineno}{function}"


def error_line(error: BaseException) -> str:
    """Return the first line of an error, marked if it is of a backward pass."""
    first = next(iter(str(error).strip().splitlines()), "").partition(" Hint: enable anomaly")[0]
    return f"{first.rstrip('.')} (in the backward pass)" if is_of_backward(error) else first


def is_of_backward(error: BaseException) -> bool:
    """Return whether a backward pass raised the error, in an operation that is not the user's own."""
    return getattr(error, FORWARD_FRAMES, None) is not None


def own_details(error: BaseException) -> str | None:
    """Return the traceback of an error in the user's code, with its own frames. None for other errors."""
    error, frames = _own_part(error)
    if not frames:
        return None
    listed = traceback.StackSummary.from_list(frames).format()
    last = traceback.format_exception_only(error)
    return "".join(["Traceback (most recent call last):\n", *listed, *last])


def shown_file(path: str) -> str:
    """Return an executed file's path within the folder of its workload file."""
    code = _executed.get(path)
    if code is None:
        return path
    try:
        return Path(path).relative_to(code.folder).as_posix()
    except ValueError:
        return Path(path).name


def own_place() -> tuple[str, int] | None:
    """Return the file and line of the user's code that is running. None outside it."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in _executed:
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else (shown_file(frame.f_code.co_filename), frame.f_lineno)


def is_own_file(path: str) -> bool:
    """Return True if this process has executed the user's file at that path."""
    return path in _executed


def _call(own: OwnFile, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return _watched(function, *arguments)
    except TypeError as error:
        if own_frames(error) or isinstance(error.__cause__, ProblemError):
            raise
        signature = "()"
        with suppress(TypeError, ValueError):
            signature = str(inspect.signature(function))
        given = counted(len(arguments), "argument")
        why = f"cannot be called with {given} ({shortened(str(error), _LONGEST_REASON)})"
        remedy = f"Give {name} the arguments described in the guide."
        raise own.problem(f"has {name}{signature}, which {why}", remedy) from None


def _watched(function: Callable[..., Any], *arguments: Any) -> Any:
    # a child process that the user's code forked ends instead of going on in it
    before = os.getpid()
    try:
        return function(*arguments)
    finally:
        if os.getpid() != before:
            os._exit(1)


@contextmanager
def _lenient_warnings() -> Iterator[None]:
    # filters that make errors of warnings would end the run at a library's or our own
    before = list(warnings.filters)
    try:
        yield
    finally:
        added = [rule for rule in warnings.filters if rule not in before and rule[0] == "error"]
        warnings.filters[:] = [rule for rule in warnings.filters if rule not in added]  # type: ignore[index]


def _module_name(code: Code) -> str:
    stem = code.file.removesuffix(".py")
    existing = sys.modules.get(stem)
    is_free = existing is None or getattr(existing, "__file__", None) in _executed
    is_free = is_free and stem not in sys.stdlib_module_names and stem.isidentifier()
    return stem if is_free else "own_" + "".join(c if c.isalnum() else "_" for c in stem)


def _remember(path: str, code: Code, text: str) -> None:
    _executed[path] = code
    # without a time of change it is never compared with the file on disk
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class _KeptModules(importlib.abc.MetaPathFinder):
    """Finds the saved modules, before any other finder. Nothing else in the folder can be imported."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in sys.stdlib_module_names:
            return None
        place = fullname.replace(".", "/")
        for relative, is_package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            text = self.code.beside.get(relative)
            if text is None and is_package and any(name.startswith(f"{place}/") for name in self.code.beside):
                # a folder without that file, unless it is also a package that is installed
                text = "" if importlib.machinery.PathFinder.find_spec(fullname, path) is None else None
            if text is not None:
                file = str(Path(self.code.folder) / relative)
                loader = _KeptLoader(file, text)
                _remember(file, self.code, text)
                spec = importlib.util.spec_from_file_location(fullname, file, loader=loader)
                if spec is not None and is_package:
                    spec.submodule_search_locations = []
                return spec
        return None


class _NotKeptModules(importlib.abc.MetaPathFinder):
    """Raises an error, after all other finders, for a module that is in the folder but not saved."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        folder, place = Path(self.code.folder), fullname.replace(".", "/")
        names = (f"{place}{suffix}" for suffix in (*importlib.machinery.all_suffixes(), "/__init__.py"))
        found = next((name for name in names if _may_serve(self.code) and (folder / name).is_file()), None)
        if found is None:
            return None
        raise ModuleNotFoundError(
            f"{found} is in the folder of {self.code.file}, but the run does not keep it. Only modules in "
            f"import statements are kept, as UTF-8 text of at most {MOST_CODE_BYTES // 2**10:,} KiB.",
            name=fullname,
        )


class _KeptLoader(importlib.abc.InspectLoader):
    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text, self._path)

    def is_package(self, fullname: str) -> bool:
        return self._path.endswith("__init__.py")


def _serve_modules(code: Code) -> None:
    ours = (_KeptModules, _NotKeptModules)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ours)]
    for name, module in list(sys.modules.items()):
        # of an earlier execution, perhaps of another text
        if getattr(module, "__file__", None) in _executed:
            del sys.modules[name]
    sys.meta_path[:] = [_KeptModules(code), *sys.meta_path, _NotKeptModules(code)]


def _may_serve(code: Code) -> bool:
    # a path of another system would be looked for wherever this process is; on another machine, which the
    # keeper of its workers tells, a folder of that name may be a stranger's
    folder = Path(code.folder)
    if "AMMETER_REMOTE" in os.environ:
        return folder.is_absolute() and folder.is_dir() and folder.stat().st_uid == os.getuid()
    return folder.is_absolute() and TrustedCode().may_look(code.place)


_guarded: list[str] = []


def guard_process(is_users: Callable[[str], bool]) -> None:
    """Make os._exit raise SystemExit and os.fork RuntimeError in files for which `is_users` is True."""
    if _guarded:
        return

    def guarded(module: Any, name: str, instead: Callable[..., Any]) -> None:
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            function = instead if is_users(sys._getframe(1).f_code.co_filename) else real
            return function(*arguments, **named)

        setattr(module, name, call)
        _guarded.append(name)

    set_handler = signal.signal

    def handler_in_main_thread(number: signal.Signals, handler: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return set_handler(number, handler)
        return signal.getsignal(number)

    guarded(os, "_exit", sys.exit)
    guarded(signal, "signal", handler_in_main_thread)

    def refuse_fork() -> NoReturn:
        raise RuntimeError(
            "os.fork() would train twice. Start another process with subprocess or multiprocessing"
        )

    for name in {"fork", "forkpty"} & set(dir(os)):
        guarded(os, name, refuse_fork)


_Result = TypeVar("_Result")
_LINE = re.compile(r'\s*File "(.+)", line (\d+), in (.+)')


def run_backward(loss: Tensor, backward: Callable[[], object]) -> None:
    """Call `backward` of the loss. Its error is marked, in anomaly mode with lines of the forward pass."""
    if not loss.requires_grad:
        raise no_gradient_error()
    begun: list[Any] = []
    if torch.is_anomaly_enabled():
        for node in _nodes(loss.grad_fn):
            node.register_prehook(lambda _, node=node: begun.append(node))
    try:
        backward()
    except Exception as error:
        # an operation of the user's own is known by its frames; a second pass is the caller's mistake
        is_known = own_frames(error) or is_out_of_memory(error) or "a second time" in str(error)
        if not is_known:
            setattr(error, FORWARD_FRAMES, _frames(begun[-1]) if begun else [])
        raise


def with_forward_line(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`. If its backward pass fails, repeat it once to learn the forward line."""
    try:
        return work()
    except Exception as error:
        is_known = getattr(error, FORWARD_FRAMES, None) != [] or torch.is_anomaly_enabled()
        # what breaks a capture breaks it again
        is_ready = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        is_captured = is_ready and torch.cuda.is_current_stream_capturing()
        # other processes would wait for a repeated pass
        if is_known or is_captured or current_rank().count > 1:
            raise
        failure = error
    # outside the except block, which would make the first error the context of the next
    try:
        with warnings.catch_warnings(action="ignore"), torch.autograd.set_detect_anomaly(True, False):
            work()
    except Exception as again:  # noqa: BLE001 - it may fail in any other way
        setattr(failure, FORWARD_FRAMES, getattr(again, FORWARD_FRAMES, []))
    raise failure


def is_repeated() -> bool:
    """Return True while `with_forward_line` repeats its work, in which NaN is not searched for."""
    return torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()


def _nodes(first: Any) -> Iterator[Any]:
    seen, waiting = set(), [first]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def _frames(node: Any) -> list[traceback.FrameSummary]:
    # the user's, in which anomaly mode saw the operation made
    found = (_LINE.match(line) for line in node.metadata.get("traceback_", ()))
    places = (place.groups() for place in found if place is not None)
    return [traceback.FrameSummary(file, int(line), name) for file, line, name in places if is_own_file(file)]
