"""Advice on numerics or the time of a step, with its fixes, and the findings of Check."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.settings import FAST, RecipePart, joined
from engine.experiment.value import MOST_ENTRIES, Details, Line, Message, Positive, Seconds, Text, Whole

_MAY_SET = ("precision", "batch_size", "epochs", "steps")
_TABLES_IT_MAY_SET = ("optimizer", "schedule", "scaler", "step", "data", "ranks")


def advisable_changes(changes: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the changes that advice may make: to the training, never to the model or the data."""
    return tuple(
        (key, text) for key, text in changes if key in _MAY_SET or key.partition(".")[0] in _TABLES_IT_MAY_SET
    )


Changes = Annotated[tuple[tuple[Line, Line], ...], Field(max_length=100), AfterValidator(advisable_changes)]
"""Settings that try a fix, by their dotted keys with values as text. Empty if no setting would."""


class AdviceKind(StrEnum):
    """The subject of advice."""

    SLOW_FORMAT = "slow format"
    ODD_SIZE = "odd size"
    LITTLE_WORK = "little work"
    SCALE_SINKS = "scale sinks"
    SCALE_NEVER_GROWS = "scale never grows"
    CASTS = "casts"  # they cost more than the lower precision saves
    HALF_IN_LOSS = "half in the loss"
    CLIPPING = "clipping"
    EPSILON = "epsilon"  # the optimizer's is below the smallest number of its parameters' format
    MEMORY = "memory"
    RANGE = "range"
    NONFINITE = "first NaN"
    DIVERGES = "diverges"  # from FP32, by more than rounding explains
    FP32_MODULES = "FP32 modules"
    COULD_BE_TF32 = "could be TF32"  # FP32 matmuls that could run on Tensor Cores
    PAGEABLE_COPY = "pageable copy"
    SYNCHRONIZATION = "synchronisation"
    STARVED = "starved"
    TINY_KERNELS = "tiny kernels"
    UNFUSED_OPTIMIZER = "unfused optimizer"
    ZEROED_GRADIENTS = "zeroed gradients"  # gradients are filled with zeros where they could be dropped
    LAYOUT = "layout"
    LARGER_BUCKETS = "larger buckets"  # of the gradients that devices synchronize
    SHORTER_GRADIENTS = "shorter gradients"
    SENT_LESS_OFTEN = "sent less often"
    STRAGGLER = "straggler"
    IDLE_THREADS = "idle threads"


class Advice(Message):
    """A piece of advice in one sentence, the measured `evidence` for it, and the `modules` that it is about.

    `action` is the label of the button that applies the settings `changes`. It is empty if there are none.
    """

    kind: AdviceKind
    message: Text
    evidence: Text
    modules: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    changes: Changes = ()
    action: Line = ""


class Advices(Message):
    """The result of the numerics part "advice": all pieces of advice, the most useful first."""

    part: Literal["advice"] = "advice"
    items: Annotated[tuple[Advice, ...], Field(max_length=100)] = ()


class Remedy(NamedTuple):
    """A fix for a slow step: the settings to change, and the label of the button that applies them."""

    changes: Changes
    action: str


def kept_on_device(experiment: Experiment) -> Remedy | None:
    """Return the fix that keeps the dataset in the device's memory. None if it is already there."""
    is_there = experiment.data.on_device
    return None if is_there else Remedy((("data.on_device", "true"),), "Keep the data on the device")


def pinned_memory(experiment: Experiment) -> Remedy | None:
    """Return the fix that pins the memory of batches. None if it is already pinned."""
    return None if experiment.data.pin_memory else Remedy((("data.pin_memory", "true"),), "Pin memory")


def fused_optimizer(experiment: Experiment) -> Remedy | None:
    """Return the fix that fuses the optimizer. None if it is already fused, or the model file's own."""
    settings = experiment.optimizer
    is_fused = settings.fused or (settings.fused is None and "fused" in experiment.step.parts)
    code = experiment.own_code
    if is_fused or (code is not None and "optimizer" in code.defines):
        return None
    return Remedy((("optimizer.fused", "true"),), "Fuse the optimizer")


def fast_recipe(experiment: Experiment, lacking: RecipePart) -> Remedy | None:
    """Return the fix that uses all optimizations.

    None if the optimization that would help, `lacking`, is already in use.
    """
    is_there = lacking in experiment.step.parts
    return None if is_there else Remedy((("step.recipe", FAST),), "Use all optimizations")


def channels_last(experiment: Experiment) -> Remedy | None:
    """Return the fix that uses channels-last memory, which suits convolutions. None if already used."""
    parts = experiment.step.parts
    if "channels_last" in parts:
        return None
    return Remedy((("step.recipe", joined({*parts, "channels_last"})),), "Use channels_last")


def larger_buckets(experiment: Experiment) -> Remedy | None:
    """Return the fix that makes DDP's buckets four times larger. None for FSDP2."""
    if experiment.ranks.strategy != "ddp":
        return None
    size = 4 * experiment.ranks.bucket_mib
    return Remedy((("ranks.bucket_mib", f"{size:g}"),), f"Use buckets of {size:g} MiB")


def shorter_gradients(experiment: Experiment) -> Remedy | None:
    """Return the fix that sends gradients in BF16. None if they are already sent in 16 bits."""
    is_short = experiment.ranks.reduction != "fp32"
    return None if is_short else Remedy((("ranks.reduction", "bf16"),), "Send gradients in BF16")


def sent_less_often(experiment: Experiment) -> Remedy:
    """Return the fix that accumulates the gradients of twice as many batches before sending them."""
    batches = 2 * experiment.step.gradient_accumulation
    return Remedy((("step.gradient_accumulation", str(batches)),), f"Accumulate over {batches:,} batches")


def larger_batch(experiment: Experiment) -> Remedy:
    """Return the fix that doubles the batch size."""
    batch = 2 * experiment.batch_size
    return Remedy((("batch_size", str(batch)),), f"Use a batch of {batch:,}")


def other_precision(precision: Precision) -> Remedy:
    """Return the fix that trains in another precision."""
    return Remedy((("precision", precision.value),), f"Train in {precision.label}")


Severity = Literal["error", "warning", "note"]
"""An error would end the run. A warning costs speed or accuracy. A note is worth knowing."""


class FindingKind(StrEnum):
    """The kind of mistake that a finding of Check reports."""

    RAISES = "raises"
    TOO_SLOW = "too slow"
    NOT_FLOAT32 = "not float32"
    SCALER_WITH_BF16 = "scaler with BF16"
    CLIPPING_BEFORE_UNSCALING = "clipping before unscaling"
    SCALER_RULE = "rule of the loss scaler"  # the file's own step would train wrongly under it
    SCHEDULER_AFTER_SKIP = "scheduler after a skipped step"
    HALF_IN_LOSS = "half in the loss"  # a softmax, logarithm or exponential of the loss is in 16 bits
    HALF_IN_FORWARD = "half in forward"  # the code itself casts to 16 bits, whatever the precision
    AUTOCAST = "autocast"  # the code itself enters it or switches it off
    EPSILON = "epsilon"  # a number that should keep another from being 0, but is 0 itself in FP16
    ATTENTION = "attention"  # kernels that cannot compute it here
    WAITS = "waits"
    BRANCHES = "branches"  # Python branches on a tensor's value: it waits, and cannot be captured
    EMULATED = "emulated"
    FP8 = "FP8"  # the layers in FP8, and changes that would gain speed
    ODD_SIZE = "odd size"
    NO_GRADIENT = "no gradient"
    SKIPS_BATCHES = "skips batches"  # the file's own step leaves gradients that are cleared, not used
    OUTPUT_NOT_FLOAT = "output not float"
    LOSS_NOT_SCALAR = "loss not scalar"
    LOSS_NOT_FINITE = "loss not finite"


class Finding(Message):
    """A mistake or remark that Check reports: one sentence in `message`, a fix in `remedy`, and its place.

    `file` and `line` are in the user's code or in a library, None if unknown. `count` is the number of times
    in a forward pass, or the number of parameters or layers concerned. `detail` is a table, or an error's
    traceback without the frames of libraries.
    """

    kind: FindingKind
    severity: Severity
    message: Text
    remedy: Text
    file: Line | None = None
    line: Positive | None = None
    count: Positive = 1
    detail: Details = ""

    @property
    def place(self) -> str:
        """The file's name and the line, "net.py:12". Empty without a file."""
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def sentence(self) -> str:
        """The message after its place, unless it names the file itself."""
        is_named = self.file is not None and self.line is None and self.file in self.message
        return f"{self.place}: {self.message}" if self.place and not is_named else self.message


class ModuleRow(Message):
    """A module in the model's tree, with its parameters and output. `name` is empty for the model itself.

    `parameters` includes those of child modules. `own` describes its own tensors, such as "weight 64×3×7×7
    float32". `output` is the shape of its output, "2×64×112×112", and `dtype` the output's dtype in the
    experiment's precision (for FP16 it may be tried in BF16). Both are empty if the module was not called.
    """

    name: Line
    class_name: Line
    parameters: Whole
    own: Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)] = ()
    output: Line = ""
    dtype: Line = ""

    @property
    def depth(self) -> int:
        """The number of modules that contain this module."""
        return len(self.name.split(".")) if self.name else 0


class NotInFP8(StrEnum):
    """The reason why a linear layer stays in BF16 or FP32."""

    OUTPUT = "the output layer"
    SIZE = "a size is not a multiple of 16"
    TOKENS = "the tokens of a batch are not a multiple of 16"
    SMALL = "too small to get faster"
    NOT_CALLED = "the model does not call it as nn.Linear"
    FP32 = "kept in FP32"


class LinearLayer(Message):
    """A linear layer of an FP8 experiment. It computes in FP8 unless `reason` says why not.

    `inputs` and `outputs` are its features. `tokens` is the number of rows of a batch, if known.
    """

    name: Line
    inputs: Whole
    outputs: Whole
    tokens: Whole | None = None
    reason: NotInFP8 | None = None


class Checked(Message):
    """The result of the job `check`: findings, errors first, and all modules in the model's order.

    `inputs`, `outputs` and `loss` describe one small batch, such as "2×10 float32". They are empty if the
    check ended before. `linear_layers` is empty unless the precision is FP8.
    """

    event: Literal["checked"] = "checked"
    findings: Annotated[tuple[Finding, ...], Field(max_length=MOST_ENTRIES)] = ()
    tree: Annotated[tuple[ModuleRow, ...], Field(max_length=MOST_ENTRIES)] = ()
    linear_layers: Annotated[tuple[LinearLayer, ...], Field(max_length=MOST_ENTRIES)] = ()
    parameters: Whole = 0
    inputs: Line = ""
    outputs: Line = ""
    loss: Line = ""
    seconds: Seconds = 0.0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that keep the experiment from being trained."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "warning")
