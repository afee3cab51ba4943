"""Turns exceptions of a run into problems in plain words."""

from __future__ import annotations

import re
import traceback

from engine.experiment.experiment import named
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Summary
from engine.protocol.trials import OUT_OF_MEMORY
from engine.training.models.libraries import is_out_of_memory
from engine.training.models.own import is_of_backward, located_problem, own_details, own_problem
from engine.training.ranks import ddp_problem
from engine.words.numbers import memory_text

_ONE_VALUE = re.compile(r"more than 1 value per channel when training, got input size .*?\[([\d, ]+)\]")
# what a process says in its backward pass when it has lost another
_OF_EXCHANGE = re.compile(r"gloo|NCCL|ProcessGroup|Connection (?:closed|reset|refused)", re.IGNORECASE)
_LOADER_ENDED = re.compile(r"DataLoader worker .*(exited unexpectedly|killed by signal)|shared memory\(shm\)")
_LOADER = re.compile(r"torch.utils.data.dataloader\.py$")


class TrainingError(ProblemError):
    """Raised when a run fails with a known problem. `summary` has the metrics up to the failure."""

    def __init__(self, problem: Problem, summary: Summary) -> None:
        super().__init__(problem)
        self.summary = summary


def summary_so_far(error: BaseException) -> Summary | None:
    """Return a failed run's metrics so far, if it could still compute them."""
    return error.summary if isinstance(error, TrainingError) else None


def problem_of(error: BaseException) -> Problem:
    """Return the problem to show for an exception that ended a run."""
    if isinstance(error, ProblemError):
        return located_problem(error)
    if _is_of_ended_loader(error):
        message = "A loader process ended during the run."
        remedy = (
            f"Lower {named('data.workers')} or {named('data.prefetch')}. Memory may have run out, or in a "
            "container the shared memory."
        )
        return Problem(kind=Kind.WORKER_DIED, message=message, remedy=remedy, key="data.workers")
    if is_out_of_memory(error):
        remedy = (
            f"Lower {named('batch_size')} or {named('image_size')}, choose a smaller model or a 16-bit "
            f"precision, or raise {named('memory_cap_gib')} if it is set."
        )
        return Problem(kind=Kind.OUT_OF_MEMORY, message=OUT_OF_MEMORY, remedy=remedy)
    if isinstance(error, ValueError) and _ONE_VALUE.search(str(error)):
        message = "A batch of a single sample is too small for this model's batch normalization."
        remedy = (
            f"Choose a {named('batch_size')} that does not leave a single sample at the end of an epoch, "
            f"or a larger {named('image_size')}."
        )
        return request_problem(message, remedy, key="batch_size")
    if (problem := ddp_problem(error) or own_problem(error)) is not None:
        return problem
    if is_of_backward(error) and not _OF_EXCHANGE.search(str(error)):
        message = f"The model failed in the backward pass: {_first_line(error)}"
        remedy = "Choose another precision, or change the operation in the model's forward pass."
        return request_problem(message, remedy, key="model")
    return Problem(
        kind=Kind.INTERNAL,
        message=f"Training stopped with an unexpected error: {_first_line(error)}",
        remedy="See the details. Try another model or precision. Report it if it happens again.",
    )


def check_normalized(error: ValueError, samples: int) -> None:
    """Turn BatchNorm's "one value per channel" error into a ProblemError. No-op for other errors."""
    found = _ONE_VALUE.search(str(error))
    if found is None or samples == 1:
        return
    message = (
        f"A batch normalization of the model has a single value per channel, because its input has shape "
        f"({found[1]}), although the batch has {samples:,} samples."
    )
    remedy = "Keep the samples in the first dimension of its input, or use nn.LayerNorm there."
    problem = own_problem(error) or request_problem(message, remedy, key="model")
    raise ProblemError(problem.model_copy(update={"remedy": remedy})) from error


def error_details(error: BaseException) -> str:
    """Return the traceback of an exception that ended a run, for the user's code with its own frames only."""
    detail = error.detail if isinstance(error, ProblemError) else ""
    return own_details(error) or detail or "".join(traceback.format_exception(error))


def not_a_number(step: int) -> Problem:
    """Return the problem of a loss that became NaN at `step`, in an experiment that treats NaN as a
    failure.
    """
    remedy = (
        "No weights were updated yet. Check the data, the initial weights and the loss, or try bf16 or fp32."
        if step == 1
        else f"Lower the {named('optimizer.learning_rate')}, {named('step.clip_norm')}, or try bf16 or fp32."
    )
    message = f"The loss is not a number (NaN) from step {step:,} on."
    return Problem(kind=Kind.NOT_A_NUMBER, message=message, remedy=remedy, key="on_nan", value="fail")


def memory_cap_problem(problem: Problem, cap_gib: float | None) -> Problem:
    """Return the problem of training under a memory cap, which names the cap if memory ran out."""
    if cap_gib is None or problem.kind is not Kind.OUT_OF_MEMORY:
        return problem
    remedy = f"Lower {named('batch_size')}, raise {named('memory_cap_gib')}, or remove it."
    message = f"The training does not fit in its memory cap of {memory_text(cap_gib * MIB_PER_GIB)}."
    return problem.model_copy(update={"message": message, "remedy": remedy})


def _is_of_ended_loader(error: BaseException) -> bool:
    if isinstance(error, EOFError | ConnectionError):
        # it ended in the middle of sending a batch
        return any(_LOADER.search(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
    return isinstance(error, RuntimeError) and _LOADER_ENDED.search(str(error)) is not None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(".") if lines else type(error).__name__
    return (text if len(text) <= 160 else text[:157] + "...") + "."
