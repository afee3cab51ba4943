"""The training of a script: number formats, optimizer, scaler, loss, learning rate, steps, validation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import ValidationError

from engine.experiment.experiment import Experiment, Optimizer, Precision, Scaler, Schedule, Step
from engine.experiment.problem import ProblemError, request_problem, unknown_name
from engine.experiment.settings import FAST, PLAIN, RECIPE_PARTS, RecipePart
from engine.export.script.data import DataFacts
from engine.export.script.model import ModelFacts, ModelKind
from engine.export.script.text import LINE, call, literal
from engine.store.record import RunRecord

_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
_ROOM = LINE - len("    optimizer = ")
_SCALER_SETTINGS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")


def optimizer_expression(settings: Optimizer, *, is_fused: bool) -> str:
    """The optimizer of `model`, whose rate is `LEARNING_RATE`; PyTorch's own settings left out."""
    given = {"lr": "LEARNING_RATE"}
    if settings.weight_decay or settings.name == "adamw":  # AdamW's own is not 0
        given["weight_decay"] = literal(settings.weight_decay)
    if settings.momentum:
        given["momentum"] = literal(settings.momentum)
    if is_fused:
        given["fused"] = "True"
    return call(_ROOM, f"torch.optim.{_OPTIMIZERS[settings.name]}", "model.parameters()", **given)


def scaler_expression(settings: Scaler) -> str:
    """A loss scaler for `DEVICE`; PyTorch's own settings left out."""
    usual = Scaler()
    changed = [name for name in _SCALER_SETTINGS if getattr(settings, name) != getattr(usual, name)]
    given = {name: literal(getattr(settings, name)) for name in changed}
    return call(_ROOM, "torch.amp.GradScaler", "DEVICE.type", **given)


def loss_expression(kind: ModelKind, outputs: str, label_smoothing: float, *, indent: int) -> str:
    """The loss of `outputs`, an expression itself, for `targets`; its statement is indented so far."""
    room = LINE - indent - len("loss = ")
    if kind == "linear":
        return call(room, "nn.functional.mse_loss", outputs, "targets")
    parts = (outputs, "targets")
    if kind == "language":
        parts = (f"{outputs}.flatten(0, 1)", "targets.flatten()")
    given = {"label_smoothing": literal(label_smoothing)} if label_smoothing else {}
    return call(room, "nn.functional.cross_entropy", *parts, **given)


@dataclass(frozen=True)
class ShortSchedule:
    """A learning rate that depends on `step`: the line before it, and an expression."""

    before: str
    expression: str


def steps_per_epoch(experiment: Experiment, samples: int | None, told: int | None) -> int:
    """Optimizer steps of an epoch of that many samples; as it was `told` where only the run itself says it.

    Raises ProblemError where neither is known.
    """
    if samples is not None:
        return math.ceil(samples / experiment.step_samples)
    if told is None:
        name = experiment.schedule.name
        message = f"schedule.name is '{name}', which depends on how many pictures the folder holds."
        remedy = "Train it first, so that this is known, or choose a constant learning rate."
        raise ProblemError(request_problem(message, remedy, key="schedule.name", value=name))
    return told


def short_schedule(schedule: Schedule, decay_steps: int | None) -> ShortSchedule | None:
    """The schedule where one line says it; a decay by epochs is after each `decay_steps` steps."""
    if schedule.warmup_steps or schedule.final_fraction:
        return None
    if schedule.name == "cosine":
        return ShortSchedule(
            "fraction = step / max(1, STEPS - 1)  # of half a cosine wave, from the peak to nothing",
            "LEARNING_RATE * (1 + math.cos(math.pi * fraction)) / 2",
        )
    if schedule.name == "step":
        factor = literal(schedule.decay_factor)
        return ShortSchedule(
            f"# multiplied by {factor} after each {schedule.decay_epochs:,} epochs",
            f"LEARNING_RATE * {factor} ** (step // {decay_steps})",
        )
    return None


Style = Literal["airy", "dense", "terse"]
STYLES: tuple[Style, ...] = get_args(Style)
_FORMATS = {
    Precision.FP16: "float16",
    Precision.FP16_UNSCALED: "float16",
    Precision.BF16: "bfloat16",
}


@dataclass(frozen=True)
class TrainingFacts:
    """The training of an experiment, as its script needs to know it; `parts` are of the recipe in force.

    `epoch_steps` are the optimizer steps of an epoch, as the run told them; they are asked for only where the
    data do not say them. `style` is what there is room for: blank lines and docstrings, docstrings, neither.
    """

    experiment: Experiment
    model: ModelFacts
    data: DataFacts
    parts: tuple[RecipePart, ...]
    epoch_steps: int | None = None
    style: Style = "airy"

    @property
    def airy(self) -> bool:
        return self.style == "airy"

    @property
    def device(self) -> str:
        """An expression for the device."""
        if self.experiment.device == "auto":
            return 'torch.accelerator.current_accelerator() or torch.device("cpu")'
        return f"torch.device({literal(self.experiment.device)})"

    @property
    def on_cpu(self) -> bool:
        return self.experiment.device == "cpu"

    @property
    def cap_gib(self) -> float | None:
        """The memory cap, where it is the card's own."""
        return self.experiment.memory_cap_gib if self.experiment.device.startswith("cuda") else None

    @property
    def schedule(self) -> Schedule | None:
        """None where the learning rate stays what it is."""
        schedule = self.experiment.schedule
        return schedule if schedule.name != "constant" or schedule.warmup_steps else None

    @property
    def short_schedule(self) -> ShortSchedule | None:
        return short_schedule(self.experiment.schedule, self.decay_steps)

    @property
    def decay_steps(self) -> int | None:
        """Optimizer steps after which the rate decays. Raises ProblemError where nothing says how many."""
        schedule = self.experiment.schedule
        if schedule.name != "step":
            return None
        return schedule.decay_epochs * self._steps_per_epoch

    @property
    def told_steps(self) -> int | None:
        """The run's length in steps where the learning rate depends on it, and it is given in epochs.

        Raises ProblemError as `decay_steps` does.
        """
        epochs = self.experiment.epochs
        if epochs is None or self.experiment.schedule.name not in ("cosine", "one-cycle"):
            return None
        return epochs * self._steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        return steps_per_epoch(self.experiment, self.data.samples, self.epoch_steps)

    @property
    def strict(self) -> bool:
        """Whether TF32 is switched off."""
        return self.experiment.precision is not Precision.DEFAULT and not self.tf32

    @property
    def tf32(self) -> bool:
        precision = self.experiment.precision
        return precision is Precision.TF32 or (precision.is_autocast and self.experiment.step.autocast_tf32)

    @property
    def autocast_dtype(self) -> str | None:
        name = _FORMATS.get(self.experiment.precision)
        return name and f"torch.{name}"

    @property
    def format_name(self) -> str:
        return "BF16" if self.experiment.precision is Precision.BF16 else "FP16"

    @property
    def scaler(self) -> str | None:
        """An expression for the loss scaler; None where the run had none."""
        return scaler_expression(self.experiment.scaler) if self.experiment.uses_scaler else None

    @property
    def searches(self) -> bool:
        """Whether cuDNN looks for its fastest algorithms."""
        return bool(self.experiment.step.parts) and not self.on_cpu

    @property
    def channels_last(self) -> bool:
        return "channels_last" in self.parts

    @property
    def memory_format(self) -> str:
        return "channels_last" if self.channels_last else "contiguous_format"

    @property
    def compiles(self) -> bool:
        return "compile" in self.parts

    @property
    def optimizer(self) -> str:
        return optimizer_expression(self.experiment.optimizer, is_fused=self._is_fused)

    @property
    def zero_momentum(self) -> bool:
        return self._is_fused and bool(self.experiment.optimizer.momentum)

    @property
    def _is_fused(self) -> bool:
        wanted = self.experiment.optimizer.fused
        return "fused" in self.parts if wanted is None else wanted

    @property
    def accumulation(self) -> int:
        return self.experiment.step.gradient_accumulation

    @property
    def clip_norm(self) -> float | None:
        return self.experiment.step.clip_norm

    @property
    def ends_on_nan(self) -> bool:
        return self.experiment.on_nan != "continue"

    @property
    def outputs(self) -> str:
        return "model(inputs).logits" if self.model.kind == "language" else "model(inputs)"

    @property
    def training_loss(self) -> str:
        """The loss of the model's outputs for `inputs`."""
        outputs = self.outputs.replace("model(", "compiled(") if self.compiles else self.outputs
        depth = 3 + (self.accumulation > 1) + self.experiment.precision.is_autocast
        return self._loss(outputs, depth)

    @property
    def loss(self) -> str:
        """The loss of `outputs` in the validation."""
        return self._loss("outputs", 2 + self.experiment.precision.is_autocast)

    def _loss(self, outputs: str, depth: int) -> str:
        smoothing = self.experiment.label_smoothing
        return loss_expression(self.model.kind, outputs, smoothing, indent=4 * depth)

    @property
    def validates(self) -> bool:
        return self.data.validates

    @property
    def validation_when(self) -> str | None:
        """After which epochs to validate, as a condition; None is all."""
        every = self.experiment.validation.every
        if every == 1:
            return None
        return f"epoch % {every} == 0" + (" or step == STEPS" if self.experiment.steps else "")

    @property
    def saves_best(self) -> bool:
        return self.validates and self.experiment.checkpoint.best

    @property
    def saves_last(self) -> bool:
        return self.experiment.checkpoint.last


def parts_in_force(run: RunRecord) -> tuple[RecipePart, ...]:
    """What of its recipe the run had in the end, or all that was asked for where it does not say."""
    if run.summary is None or run.summary.recipe is None:
        return run.experiment.step.parts
    try:
        return Step.model_validate({"recipe": run.summary.recipe}).parts
    except ValidationError:
        known = (PLAIN, FAST, *RECIPE_PARTS)
        raise ProblemError(unknown_name("recipe", run.summary.recipe, known, "recipe")) from None
