"""The state to resume a run bit for bit, in files that load with `weights_only=True`, or in memory."""

from __future__ import annotations

import errno
import os
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, Self, cast

import numpy as np
import torch
from pydantic import ValidationError
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map_only

from engine.experiment.optimizers import Scaler
from engine.experiment.paths import checkpoint_path, part_path, plain_file
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import Bounded, Positive, Seconds, StepNumber, Whole
from engine.protocol.numerics import most_skips
from engine.training.measuring.telemetry import Rows
from engine.training.models.own import random_states, restore_random_states
from engine.training.precision import are_finite
from engine.training.ranks import (
    broadcast_buffers,
    gather_state,
    shard_tensor,
    shard_tensors,
    sum_over_ranks,
)

CheckpointKind = Literal["best", "last", "rewind"]

_FORMAT, _VERSION = "ammeter-checkpoint", 1
_NOT_OURS = "is damaged or not a checkpoint of Ammeter."
_PARTS = frozenset({"model", "optimizer", "scaler", "random", "progress"})
# a damaged file may fail in torch's reader in any of these ways
_DAMAGES = (
    *(OSError, RuntimeError, EOFError, ValueError, TypeError, LookupError, AttributeError),
    *(pickle.UnpicklingError, zipfile.BadZipFile, zlib.error),
)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


class Checkpoints:
    """Saves and loads the checkpoints of one run, at most one of each kind, in their own folder.

    The first rank saves the full state. The others save only their random state and progress.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._folder = folder
        self._rank = rank

    def _path(self, kind: CheckpointKind, rank: int) -> Path:
        path = checkpoint_path(self._folder, kind)
        return path.with_name(f"{path.stem}.rank{rank}{path.suffix}") if rank else path

    def save(self, kind: CheckpointKind, state: Mapping[str, Any]) -> None:
        """Write a state atomically. Raises ProblemError of kind DISK_FULL or STORE."""
        path = self._path(kind, self._rank)
        if self._rank:
            state = {**state, "model": {}, "optimizer": {}}
        # a killed process's part is overwritten by the next save, or swept by the store
        part = part_path(path)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file, _Writer(file) as writer:
                torch.save({"format": _FORMAT, "version": _VERSION, **state}, cast(IO[bytes], writer))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            _sync_folder(self._folder)
        except OSError as error:
            raise ProblemError(_not_written(path, error)) from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def load(self, kind: CheckpointKind) -> dict[str, Any]:
        """Return the last saved state, on the CPU. Raises ProblemError for a missing or damaged file."""
        state = self._read(kind, 0)
        # without it, which only a kill between two files explains, dropout is that of the first rank
        if self._rank and self._path(kind, self._rank).is_file():
            own = self._read(kind, self._rank)
            if own["progress"]["tally"]["steps"] == state["progress"]["tally"]["steps"]:
                state |= {"random": own["random"], "progress": own["progress"]}
        return state

    def _read(self, kind: CheckpointKind, rank: int) -> dict[str, Any]:
        path = self._path(kind, rank)
        try:
            # torch verifies no checksums: without this a flipped bit would become a weight
            with open(path, "rb", opener=plain_file) as file:
                with zipfile.ZipFile(file) as archive:
                    damaged = archive.testzip()
                file.seek(0)
                state = None if damaged else torch.load(file, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise ProblemError(_problem(f"No checkpoint was found at {path}.")) from None
        except _DAMAGES as error:
            raise ProblemError(_problem(f"{path} {_NOT_OURS}")) from error
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ProblemError(_problem(f"{path} {_NOT_OURS}"))
        if state.get("version") != _VERSION or not state.keys() >= _PARTS:
            message = f"The checkpoint {path} was written by another version of Ammeter."
            raise ProblemError(_problem(message, "Use that version, or start a new run."))
        return state


class _Tally(Bounded):
    steps: StepNumber
    seconds: Seconds
    skipped_steps: Whole
    first_nan_step: StepNumber | None
    train_loss: float
    accuracy: float | None
    best_accuracy: float | None
    best_epoch: Whole | None
    least_loss: float | None = None
    loss_sum: float
    loss_samples: Whole


class _Progress(Bounded):
    epoch: Positive
    batches_done: Whole
    paused_seconds: Seconds
    tally: _Tally


def load_checked(state: Mapping[str, Any], steps_per_epoch: int) -> dict[str, Any]:
    """Load a checkpoint and check its progress. Raises ProblemError if it is unusable.

    Weights may be NaN only if the loss was NaN before. A run from other such weights would be wasted.
    """
    try:
        progress = _Progress.model_validate(state["progress"])
    except ValidationError:
        raise ProblemError(_problem("The checkpoint does not have the progress of its run.")) from None
    # the epoch may be the one after the last step's, also in mid-epoch where the length is in steps
    steps, epoch = progress.tally.steps, progress.epoch
    if not steps <= epoch * steps_per_epoch <= steps + 2 * steps_per_epoch:
        message = f"The checkpoint's progress is inconsistent: epoch {epoch:,} after step {steps:,}."
        raise ProblemError(_problem(message))
    if progress.tally.first_nan_step is None and not are_finite(state["model"]):
        message = "The checkpoint's weights contain NaN, although the loss of its run was never NaN."
        raise ProblemError(_problem(message))
    return {**state, "progress": progress.model_dump()}


def capture_state(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    progress: Mapping[str, Any],
    device: torch.device,
) -> dict[str, Any]:
    """Return the state to resume training from, after a full optimizer step. `progress` has plain numbers.

    The tensors are those in use, not copies, so save them before the next step. Synchronizes with the device.
    Several ranks call it after the same step. Sharded tensors are complete on the first rank alone.
    """
    broadcast_buffers(model)
    return {
        "model": gather_state(model.state_dict()),
        "optimizer": gather_state(optimizer.state_dict()),
        "scaler": scaler.state_dict(),
        "random": random_states(device),
        "progress": dict(progress),
    }


def restore_state(
    state: Mapping[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    device: torch.device,
) -> dict[str, Any]:
    """Restore a state from `capture_state`, before the first step, and return its `progress`.

    Raises ProblemError if the state is of another model, optimizer or scaler.
    """
    try:
        model.load_state_dict(shard_tensors(state["model"], model.state_dict()))
        _restore_optimizer(optimizer, state["optimizer"])
        scaler.load_state_dict(state["scaler"])
        restore_random_states(state["random"], device)
        return dict(state["progress"])
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        message = "The checkpoint does not fit this run. It has another model, optimizer or scaler."
        raise ProblemError(_problem(message)) from error


def _restore_optimizer(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    # Only the parameters' state: the settings are this run's own. A learning rate that is a tensor must stay
    # the same tensor, which the step holds and a graph reads.
    own = [
        {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
    ]
    groups = optimizer.state_dict()["param_groups"]
    sizes, saved_sizes = ([len(group["params"]) for group in of] for of in (groups, saved["param_groups"]))
    if sizes != saved_sizes:
        raise ValueError("other parameters")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    values = {
        number: {key: shard_tensor(value, parameters[number]) for key, value in of_parameter.items()}
        for number, of_parameter in saved["state"].items()
    }
    optimizer.load_state_dict({"state": values, "param_groups": groups})
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)


class _Writer:
    # torch's own writer says only that writing failed: its OSError is raised instead

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.flush = file.flush
        self._error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self._error = self._error or error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._error is not None:
            raise self._error from None


def _sync_folder(folder: Path) -> None:
    # Windows opens no folders; elsewhere a power cut may undo a rename until its folder is synced
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _not_written(path: Path, error: OSError) -> Problem:
    if error.errno in _NO_ROOM:
        return Problem(
            kind=Kind.DISK_FULL,
            message=f"There is not enough disk space for the checkpoint {path}.",
            remedy="Free disk space, set AMMETER_HOME to another disk, or turn checkpoints off.",
        )
    message = f"The checkpoint {path} cannot be written: {error.strerror or error}."
    return _problem(message, "Check write permission for the folder, or set AMMETER_HOME to another one.")


def _problem(message: str, remedy: str = "Start a new run.") -> Problem:
    return Problem(kind=Kind.STORE, message=message, remedy=remedy)


def copy_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state from `capture_state` in system memory. Synchronizes with the device."""
    copy: dict[str, Any] = tree_map_only(torch.Tensor, _copied_tensor, dict(state))
    return copy


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if not is_traceable_wrapper_subclass(tensor):
        return tensor.detach().to("cpu", copy=True)
    # of a state in few bits, whose own `to` would share what is on the host already
    names, rest = tensor.__tensor_flatten__()
    parts = {name: _copied_tensor(getattr(tensor, name)) for name in names}
    return type(tensor).__tensor_unflatten__(parts, rest, tensor.shape, tensor.stride())


class StateSnapshot:
    """Copies the state of a run every `every` steps, so that steps that went wrong can be repeated.

    Only the newest copy is kept, in the host's memory, but during a copy there are two. Copying ends when a
    loss is not finite or when too many steps in a row are skipped. No copy is made after a skipped step or
    with weights that are not finite.
    """

    def __init__(self, every: int, scaler: Scaler, device: torch.device) -> None:
        self._every = self._due = every
        self._device = device
        self._most_skips = most_skips(scaler)
        self._skipped_in_a_row = 0
        self._is_over = self._is_over_for_all = False
        self.state: dict[str, Any] | None = None  # the newest state kept, on the host

    @property
    def steps(self) -> int:
        """The number of steps before the saved state, 0 without one."""
        return 0 if self.state is None else int(self.state["progress"]["tally"]["steps"])

    def is_due(self, steps: int) -> bool:
        """Return True if the state is to be kept after so many steps."""
        return steps >= self._due and not self._is_over_for_all

    def keep(self, state: Mapping[str, Any]) -> None:
        """Keep a copy of a state from `capture_state`. Pass all earlier steps to `detects_failure` first."""
        may = not self._is_over and not self._skipped_in_a_row and are_finite(state["model"])
        # a loss may be infinite for one rank only, and a sharded state is gathered by all of them or by none
        over, against = sum_over_ranks((self._is_over, not may), self._device)
        self._is_over_for_all = over > 0
        if not against:
            self.state = copy_state(state)
            self._due = self.steps + self._every

    def detects_failure(self, rows: Rows) -> bool:
        """Return True once, when a loss is not finite or too many steps in a row were skipped."""
        if self._is_over:
            return False
        skipped = rows.figures.get("found_inf", np.zeros(len(rows.step))) > 0
        is_infinite = ~np.isfinite(rows.figures["loss"]) & ~rows.is_given_up
        for is_skipped, is_over in zip(skipped, is_infinite, strict=True):
            self._skipped_in_a_row = self._skipped_in_a_row + 1 if is_skipped else 0
            self._is_over |= self._skipped_in_a_row >= self._most_skips or bool(is_over)
        return self._is_over
